"""What the files of a model folder say: templates, special tokens, stop ids, sizes.

    chat_template.jinja, additional_chat_templates/*.jinja ─┐ the files win, all together
    tokenizer_config.json   chat_template ──────────────────┘
                            *_token ─ added_tokens_decoder? yes ─▶ this file   no ─▶ special_tokens_map.json wins
    tokenizer.json          ids, added tokens, what is put before and after a text
    generation_config.json  eos_token_id: where generation stops; config.json serves only if this file is missing
    *.safetensors           the first 8 bytes and the header: rows of the embedding

Only small files and headers are read, weights never; nothing is executed and nothing is fetched. `facts` are the checks
that need no rendering: each is proven from the files alone.

Source: the precedences are those of transformers 5.24 (``tokenization_utils_base``, ``processing_utils``,
``generation/configuration_utils``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import itertools
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from prep_lib.errors import BadInput, BadParameter, BadTemplate
from prep_lib.special import MARKER
from prep_lib.tokens.tokenizer import PROBES, AutoTokenizer

TOKENIZER, CONFIG = "tokenizer.json", "tokenizer_config.json"
SPECIALS, ADDED = "special_tokens_map.json", "added_tokens.json"
GENERATION, MODEL = "generation_config.json", "config.json"
JINJA, MORE_JINJA = "chat_template.jinja", "additional_chat_templates"
LEGACY, PROCESSOR = "chat_template.json", "processor_config.json"

#: Bytes a configuration or template may have, and a ``tokenizer.json``. Real ones stay below 2 and 40 MB.
SMALL, LARGE = 2**24, 2**28
#: Bytes of a safetensors header or index that is read; 100,000 tensors take about 15 MB.
HEADER = 2**26
#: Weight files, added tokens, and evidence looked at: a folder cannot keep us busy for long.
MAX_FILES, MAX_TOKENS, SHOWN = 256, 4096, 20

#: Where a multimodal model keeps the configuration of its language model.
_NESTED = ("text_config", "llm_config", "language_config", "decoder", "generator", "thinker_config")
_EMBEDDING = re.compile(
    r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|embed_in)\.weight$"
    r"|^(?:shared|backbone\.embeddings?)\.weight$"
)
#: Rows of a packed tensor are not rows of the vocabulary, so only plain floats count.
_FLOATS = frozenset({"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"})
_FLAGS = ("special", "normalized", "lstrip", "rstrip", "single_word")
#: "No limit", as some tokenizers write it.
_NO_LIMIT = 10**9


# ---------------------------------------------------------------- what a folder holds


class Named(NamedTuple):
    """A token as evidence: its id, None if there is none, and its spelling."""

    id: int | None
    text: str


@dataclasses.dataclass(frozen=True)
class StoredTemplate:
    """A chat template as stored: its name ("default", "tool_use", …), the Jinja text, and the file it is in."""

    name: str
    source: str
    file: str

    def same(self, other: StoredTemplate) -> bool:
        """Tell whether both are one template; Jinja itself drops the last line feed and makes CRLF one."""
        return _lines(self.source) == _lines(other.source)


@dataclasses.dataclass(frozen=True)
class Special:
    """A token a file gives a role: ``eos``, ``pad``, ``image``, or ``extra`` for those of a list."""

    role: str
    token: str
    id: int | None
    file: str

    @property
    def evidence(self) -> Named:
        """Id and spelling."""
        return Named(self.id, self.token)


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A token looked for before the model sees the text, with the flags that say how."""

    content: str
    id: int
    special: bool
    normalized: bool
    lstrip: bool
    rstrip: bool
    single_word: bool
    file: str


def _with_flags(token: AddedToken, says: AddedToken, special: bool) -> AddedToken:
    flags = {flag: getattr(says, flag) for flag in _FLAGS}
    return dataclasses.replace(token, **flags | {"special": special or says.special})


@dataclasses.dataclass(frozen=True)
class Rows:
    """How many rows a weight over the vocabulary has."""

    tensor: str
    file: str
    rows: int


@dataclasses.dataclass(frozen=True)
class Unread:
    """A file that was not read, and why. `damaged`: it should have been readable."""

    file: str
    cause: str
    damaged: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """What the files of a model folder say. Made by `load`.

    Attributes
    ----------
    place : Path
        The folder, or the single file.
    name : str
    tokenizer : AutoTokenizer or None
        None for a single template or configuration without a ``tokenizer.json`` beside it.
    templates : tuple of StoredTemplate
        Every template found, those that do not serve as well.
    served : mapping of str to StoredTemplate
        Those a tokenizer loads, by name.
    why : str
        One sentence that says which file serves and why.
    roles : mapping of str to Special
        The special tokens that serve, by role; empty where no configuration names any.
    named : tuple of Special
        Every token any file gives a role.
    stops, pads, bos : mapping of str to tuple of int
        Ids by file (``generation_config.json``, ``config.json``), only where the file names some.
    added, declared : tuple of AddedToken
        Added tokens of ``tokenizer.json``, and those that ``tokenizer_config.json`` and ``added_tokens.json`` declare.
    before, after : tuple of Named
        What the post-processor puts before and after each text when special tokens are asked for.
    vocab_size, max_positions, model_max_length : int or None
        As configured; `model_max_length` is None where the file says "no limit".
    embeddings : tuple of Rows
        Read from safetensors headers.
    configs : mapping of str to mapping
        Each JSON file that was read, whole, by name; ``tokenizer.json`` without its vocabulary.
    unread : tuple of Unread
    whole : bool
        False: one file was asked for, so what is missing may be elsewhere.
    """

    place: Path
    name: str
    tokenizer: AutoTokenizer | None = None
    templates: tuple[StoredTemplate, ...] = ()
    served: Mapping[str, StoredTemplate] = dataclasses.field(default_factory=dict)
    why: str = ""
    roles: Mapping[str, Special] = dataclasses.field(default_factory=dict)
    named: tuple[Special, ...] = ()
    stops: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    pads: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    bos: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    added: tuple[AddedToken, ...] = ()
    declared: tuple[AddedToken, ...] = ()
    before: tuple[Named, ...] = ()
    after: tuple[Named, ...] = ()
    vocab_size: int | None = None
    max_positions: int | None = None
    model_max_length: int | None = None
    embeddings: tuple[Rows, ...] = ()
    configs: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    unread: tuple[Unread, ...] = ()
    whole: bool = True

    @classmethod
    def load(cls, place: str | Path) -> ModelFolder:
        """Read a model folder, or one file of it; the same as `load`."""
        return load(place)

    @property
    def template(self) -> StoredTemplate | None:
        """The template a conversation without tools is rendered by; the first one where none is called "default"."""
        return _chosen(self.served)

    def template_for(self, tools: bool) -> StoredTemplate | None:
        """Return the template that renders a conversation: one called "tool_use" takes those with tools."""
        return (self.served.get("tool_use") if tools else None) or self.template

    @property
    def variables(self) -> dict[str, str]:
        """What a template may read of the tokenizer: ``bos_token``, ``eos_token``, … and a model's own, by name."""
        return {f"{role}_token": special.token for role, special in self.roles.items()}

    @property
    def generation_stops(self) -> tuple[str, tuple[int, ...]] | None:
        """Where generation stops: (file, ids); no ids: only at its length. None: no file says anything about it."""
        file = next((file for file in (GENERATION, MODEL) if file in self.configs), None)
        return None if file is None else (file, self.stops.get(file, ()))

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The ids generation stops at, those that are tokens; the tokenizer's own end token is not added."""
        ids = self.generation_stops[1] if self.generation_stops else ()
        return tuple(id for id in ids if self.tokenizer is None or self.spell(id) is not None)

    @property
    def rows(self) -> int | None:
        """Rows of the embedding as stored, the most where there are several. None: not known."""
        return max((found.rows for found in self.embeddings), default=None)

    @property
    def limit(self) -> int | None:
        """The first id without a row: by the weights, else by the configuration. None: not known."""
        return self.vocab_size if self.rows is None else self.rows

    def effective(self) -> tuple[AddedToken, ...]:
        """Return the added tokens of ``tokenizer.json`` with the flags transformers gives them.

        A token that ``added_tokens_decoder`` declares with other flags is added again, with those; one that has a role
        is special.
        """
        declared = {token.content: token for token in self.declared if token.file == CONFIG}
        roles = {special.token for special in self.roles.values()}
        return tuple(
            _with_flags(token, declared.get(token.content, token), token.content in roles) for token in self.added
        )

    def id(self, token: str) -> int | None:
        """Return the id of a spelling, None if it has none."""
        if self.tokenizer is not None:
            return self.tokenizer.id(token)
        return next((found.id for found in self.declared if found.content == token), None)

    def spell(self, id: int) -> str | None:
        """Return the spelling of an id, None if no token has it."""
        if self.tokenizer is None:
            return next((found.content for found in self.declared if found.id == id), None)
        try:
            return self.tokenizer.token(id) if id <= self.tokenizer.max_id else None
        except BadParameter:
            return None

    def evidence(self, ids: Iterable[int]) -> tuple[Named, ...]:
        """Return ids with their spellings; "" where there is none."""
        return tuple(Named(id, self.spell(id) or "") for id in ids)

    def writes(self, token: str) -> bool:
        """Tell whether a template that serves spells this token."""
        return any(token in template.source for template in self.served.values())

    def used_ids(self, terminators: Iterable[int] = ()) -> frozenset[int]:
        """Return the ids that have a job: a role, a place generation stops, or the end of a turn."""
        roles = {special.id for role, special in self.roles.items() if role in _ROLES and special.id is not None}
        return frozenset(roles.union(terminators, *self.stops.values()))

    def at_work(self, tokens: Iterable[Named], terminators: Iterable[int] = ()) -> bool:
        """Tell whether any of these tokens has a job or is written by a template that serves."""
        used = self.used_ids(terminators)
        return any(token.id in used or self.writes(token.text) for token in tokens)

    def describe(self) -> dict[str, Any]:
        """Return the main numbers as plain values, for a report."""
        stops = self.generation_stops
        return {
            "name": self.name, "model_type": self.configs.get(MODEL, {}).get("model_type"),
            "tokenizer": self.tokenizer.describe() if self.tokenizer else None,
            "template": self.template.file if self.template else None, "why": self.why,
            "templates": [f"{template.file}: {template.name}" for template in self.templates],
            "roles": {role: [special.token, special.id] for role, special in self.roles.items()},
            "stops": list(stops[1]) if stops else None, "stops_from": stops[0] if stops else None,
            "before": [token.text for token in self.before], "after": [token.text for token in self.after],
            "vocab_size": self.vocab_size, "embedding_rows": self.rows, "max_positions": self.max_positions,
            "unread": [f"{note.file}: {note.cause}" for note in self.unread],
        }  # fmt: skip


#: The roles every tokenizer knows; others are a model's own ("image", "extra").
_ROLES = ("bos", "eos", "pad", "unk", "sep", "cls", "mask")


# ---------------------------------------------------------------- reading


def load(place: str | Path) -> ModelFolder:
    """Read a model folder, or one file of it.

    Parameters
    ----------
    place : path
        A folder with a ``tokenizer.json``; a hub name whose files are in the local cache; a ``tokenizer.json`` (read
        alone, so no roles are known); a ``tokenizer_config.json`` or ``*.jinja`` (read with the ``tokenizer.json``
        beside it, if there is one, and then its template is the one that serves).

    Raises
    ------
    BadInput
        If nothing is there, or if ``tokenizer.json`` is missing, damaged, larger than `LARGE`, or drops characters.
        Any other file that cannot be read is a note in `ModelFolder.unread`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = AutoTokenizer().train(["a"], vocab_size=270).save(folder)
    ...     found = load(folder)
    >>> found.roles["eos"]
    Special(role='eos', token='<｜end▁of▁sentence｜>', id=1, file='tokenizer_config.json')
    >>> [fact.rule for fact in facts(found)]
    ['NO_TEMPLATE']
    """
    path = Path(place).expanduser()
    if path.is_file():
        return _load_file(path)
    if path.is_dir():
        return _load_folder(path, path)
    if re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", str(place)):
        return _load_folder(_cached(str(place)), str(place))
    raise BadInput(f"chat/folder: nothing at {place}; give a model folder, a file of one, or a cached hub name")


def _cached(name: str) -> Path:
    """Return the cached folder of a hub name; nothing is ever downloaded."""
    hub = importlib.import_module("huggingface_hub")
    cache = os.environ.get("HF_HUB_CACHE") or (os.environ.get("HF_HOME") and str(Path(os.environ["HF_HOME"]) / "hub"))
    try:
        found = hub.try_to_load_from_cache(name, TOKENIZER, cache_dir=cache or None)
    except ValueError:  # the hub has its own rules for names
        found = None
    if not isinstance(found, str):
        raise BadInput(f"chat/folder: nothing at {name}, and no such model in the local hub cache; give a model folder")
    return Path(found).parent


def _load_file(path: Path) -> ModelFolder:
    if path.suffix == ".jinja":
        return _load_jinja(path)
    try:
        content = _object(_small(path, LARGE) or "")
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"chat/folder: cannot read {path}: {_first_line(error)}") from None
    if "model" in content and "added_tokens" in content:
        return _load_tokenizer(path)
    if path.name != CONFIG and "chat_template" not in content:
        raise BadInput(f"chat/folder: {path} is no {TOKENIZER} and holds no chat_template; give the model folder")
    stored = tuple(_stored(content.get("chat_template"), path.name))
    if (path.parent / TOKENIZER).is_file():
        whole = _load_folder(path.parent, path.parent)
        return _only(whole, path, stored) if stored else dataclasses.replace(whole, place=path)
    configs = {CONFIG: content} if path.name == CONFIG else {}
    return _only(_assemble(path, path.stem, None, configs, _Reader(path.parent), ()), path, stored)


def _load_jinja(path: Path) -> ModelFolder:
    """Read one template; with the model folder it lies in, if it lies in one."""
    home = path.parent.parent if path.parent.name == MORE_JINJA else path.parent
    try:
        template = StoredTemplate("default", _small(path) or "", path.relative_to(home).as_posix())
    except (OSError, ValueError) as error:
        raise BadInput(f"chat/folder: cannot read {path}: {_first_line(error)}") from None
    whole = _load_folder(home, home) if (home / TOKENIZER).is_file() else ModelFolder(place=path, name=path.stem)
    return _only(whole, path, (template,))


def _only(folder: ModelFolder, path: Path, templates: tuple[StoredTemplate, ...]) -> ModelFolder:
    """Return `folder` with the templates of the given file as the only ones."""
    served = {template.name: template for template in templates}
    why = f"{path.name} serves, because it was given"
    if folder.tokenizer is not None:
        _give(folder.tokenizer, served)
    return dataclasses.replace(folder, place=path, templates=templates, served=served, why=why, whole=False)


def _load_tokenizer(path: Path) -> ModelFolder:
    """Read a single ``tokenizer.json``: what it holds is known, which token has which role is not."""
    tokenizer = AutoTokenizer(path)
    found = _assemble(path, tokenizer.name, tokenizer, {TOKENIZER: _spec(path)}, _Reader(path.parent), ())
    return dataclasses.replace(found, whole=False)


def _load_folder(folder: Path, given: str | Path) -> ModelFolder:
    reader = _Reader(folder)
    tokenizer = _tokenizer(folder, given)
    configs = {TOKENIZER: _spec(folder / TOKENIZER)}
    for file in (CONFIG, SPECIALS, ADDED, GENERATION, MODEL, LEGACY, PROCESSOR):
        content = reader.json(file)
        if content is not None:
            configs[file] = content
    return _assemble(folder, tokenizer.name, tokenizer, configs, reader, tuple(_jinja_files(reader)))


def _tokenizer(folder: Path, given: str | Path) -> AutoTokenizer:
    """Load the tokenizer; where a file beside ``tokenizer.json`` is damaged, without those files."""
    path = folder / TOKENIZER
    if path.is_file() and path.stat().st_size > LARGE:
        raise BadInput(f"chat/folder: {path} has {path.stat().st_size:,} bytes; a {TOKENIZER} may have {LARGE:,}")
    beside = (folder / file for file in (CONFIG, SPECIALS, JINJA))
    if all(not other.is_file() or other.stat().st_size <= SMALL for other in beside):
        with contextlib.suppress(BadInput, LookupError, TypeError, ValueError, AttributeError, RecursionError):
            return AutoTokenizer(given)
    return AutoTokenizer(path) if path.is_file() else AutoTokenizer(folder)


def _spec(path: Path) -> dict[str, Any]:
    """Return a ``tokenizer.json`` without its vocabulary; the tokenizer has proven it readable."""
    spec: dict[str, Any] = orjson.loads(path.read_bytes())
    model = {key: value for key, value in spec["model"].items() if key not in ("vocab", "merges")}
    return spec | {"model": model}


class _Reader:
    """Reads small files of one folder; what it cannot read becomes a note."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.unread = folder, list[Unread]()

    def note(self, file: str, cause: str, damaged: bool = True) -> None:
        self.unread.append(Unread(file, cause, damaged))

    def text(self, file: str, most: int = SMALL) -> str | None:
        """Return the text of a file; None where there is none, or none that can be read."""
        try:
            return _small(self.folder / file, most)
        except (OSError, ValueError) as error:
            self.note(file, f"cannot be read: {_first_line(error)}")
            return None

    def json(self, file: str, most: int = SMALL) -> dict[str, Any] | None:
        """Return the object a JSON file holds; None as for `text`."""
        text = self.text(file, most)
        try:
            return None if text is None else _object(text)
        except (ValueError, RecursionError) as error:
            self.note(file, f"is not the JSON it should be: {_first_line(error)}")
            return None


def _small(path: Path, most: int = SMALL) -> str | None:
    """Return the text of a regular file of at most `most` bytes; None if there is no file."""
    if not path.is_file():
        if path.is_symlink():
            raise ValueError("it is a link to nothing")
        return None
    size = path.stat().st_size
    if size > most:
        raise ValueError(f"it has {size:,} bytes, and such a file may have {most:,}")
    return path.read_bytes().decode()


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is valid JSON and no text
    if not isinstance(value, dict):
        raise ValueError(f"it holds a {type(value).__name__}, not an object")
    return value


def _first_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


def _assemble(
    place: Path,
    name: str,
    tokenizer: AutoTokenizer | None,
    configs: dict[str, dict[str, Any]],
    reader: _Reader,
    jinja: tuple[StoredTemplate, ...],
) -> ModelFolder:
    """Put together what was read."""
    templates, served, why = _templates(configs, jinja)
    declared = tuple(_declared(configs))
    known = {token.content: token.id for token in declared}
    named = tuple(_named(configs, tokenizer, known))
    roles = _roles(named, configs)
    if tokenizer is not None:
        _give(tokenizer, served)
        if roles and any("has no configuration" in note for note in tokenizer.notes):
            _take_roles(tokenizer, roles)
    weights = tuple(_weights(reader)) if place.is_dir() else ()
    spec, model = configs.get(TOKENIZER, {}), configs.get(MODEL, {})
    before, after = _around(spec.get("post_processor"))
    return ModelFolder(
        place=place, name=name, tokenizer=tokenizer, templates=templates, served=served, why=why,
        roles=roles, named=named, stops=_ids_of(configs, "eos_token_id"), pads=_ids_of(configs, "pad_token_id"),
        bos=_ids_of(configs, "bos_token_id"), declared=declared,
        added=tuple(_added_token(token, TOKENIZER, token["id"]) for token in spec.get("added_tokens", ())),
        before=before, after=after, vocab_size=_number(_deep(model, "vocab_size")),
        max_positions=_number(_deep(model, "max_position_embeddings")),
        model_max_length=_number(configs.get(CONFIG, {}).get("model_max_length")),
        embeddings=weights, configs=configs, unread=tuple(reader.unread),
    )  # fmt: skip


# ---------------------------------------------------------------- templates


def _jinja_files(reader: _Reader) -> Iterator[StoredTemplate]:
    source = reader.text(JINJA)
    if source is not None:
        yield StoredTemplate("default", source, JINJA)
    folder = reader.folder / MORE_JINJA
    for path in sorted(folder.glob("*.jinja"))[:MAX_FILES] if folder.is_dir() else ():
        file = f"{MORE_JINJA}/{path.name}"
        source = reader.text(file)
        if source is not None:
            yield StoredTemplate(path.stem, source, file)


def _stored(value: Any, file: str) -> Iterator[StoredTemplate]:
    """Yield the templates of a ``chat_template`` entry: one text, named texts, or a list of both."""
    if isinstance(value, str):
        yield StoredTemplate("default", value, file)
    elif isinstance(value, Mapping):
        yield from (StoredTemplate(str(name), text, file) for name, text in value.items() if isinstance(text, str))
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, Mapping) and isinstance(item.get("template"), str):
                yield StoredTemplate(str(item.get("name", "default")), item["template"], file)


def _templates(
    configs: Mapping[str, Mapping[str, Any]], jinja: tuple[StoredTemplate, ...]
) -> tuple[tuple[StoredTemplate, ...], dict[str, StoredTemplate], str]:
    """Return all templates, those that serve by name, and the sentence that says why."""
    files = (CONFIG, PROCESSOR, LEGACY)
    stored = {file: tuple(_stored(configs.get(file, {}).get("chat_template"), file)) for file in files}
    everything = (*jinja, *itertools.chain.from_iterable(stored.values()))
    serving = jinja or next((found for found in stored.values() if found), ())
    served = {template.name: template for template in serving}
    names = ", ".join(dict.fromkeys(template.file for template in serving))
    why = "no other file of the tokenizer holds one"
    if jinja and stored[CONFIG]:
        why = f"template files win over the one in {CONFIG}"
    elif not jinja and not stored[CONFIG]:
        why = "only a processor reads it, and the tokenizer has none"
    return everything, served, f"{names} serves: {why}" if served else ""


def _give(tokenizer: AutoTokenizer, served: Mapping[str, StoredTemplate]) -> None:
    """Let the tokenizer render by the template that serves; one that does not parse is left to whoever uses it."""
    tokenizer.chat_template = None
    template = _chosen(served)
    if template is not None:
        with contextlib.suppress(BadTemplate):
            tokenizer.set_chat_template(template.source)


def _chosen(served: Mapping[str, StoredTemplate]) -> StoredTemplate | None:
    return served.get("default") or next(iter(served.values()), None)


def _take_roles(tokenizer: AutoTokenizer, roles: Mapping[str, Special]) -> None:
    """Give a tokenizer that was read without its configuration the roles that could be read."""
    for role in ("bos", "eos", "pad"):
        special = roles.get(role)
        setattr(tokenizer, f"{role}_token", special.token if special and special.id is not None else None)
    tokenizer.notes = tuple(note for note in tokenizer.notes if "has no configuration" not in note)


def _lines(source: str) -> str:
    return source.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")


# ---------------------------------------------------------------- tokens and ids


def _named(
    configs: Mapping[str, Mapping[str, Any]], tokenizer: AutoTokenizer | None, known: Mapping[str, int]
) -> Iterator[Special]:
    """Yield each token a file gives a role."""
    for file in (CONFIG, SPECIALS):
        for role, token in _roles_in(configs.get(file, {})):
            yield Special(role, token, tokenizer.id(token) if tokenizer else known.get(token), file)
    padding = configs.get(TOKENIZER, {}).get("padding")
    padded = padding.get("pad_token") if isinstance(padding, Mapping) else None
    if isinstance(padded, str) and tokenizer is not None and "pad_token" not in configs.get(CONFIG, {}):
        yield Special("pad", padded, tokenizer.id(padded), TOKENIZER)


def _roles_in(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in config.items():
        token = _content(value)
        if key.endswith("_token") and token is not None:
            yield key.removesuffix("_token"), token
    for key in ("extra_special_tokens", "additional_special_tokens"):
        value = config.get(key)
        if isinstance(value, Mapping):
            yield from (
                (str(role).removesuffix("_token"), text) for role, item in value.items() if (text := _content(item))
            )
        elif isinstance(value, list):
            yield from (("extra", text) for item in value if (text := _content(item)))


def _content(value: Any) -> str | None:
    """Return the spelling of a token stored as text or with its flags."""
    content = value.get("content") if isinstance(value, Mapping) else value
    return content if isinstance(content, str) else None


def _roles(named: Sequence[Special], configs: Mapping[str, Mapping[str, Any]]) -> dict[str, Special]:
    """Return the tokens that serve. The map is read only where the configuration declares no added tokens."""
    order = [TOKENIZER, SPECIALS, CONFIG]
    if "added_tokens_decoder" not in configs.get(CONFIG, {}):
        order = [TOKENIZER, CONFIG, SPECIALS]
    if not any(file in configs for file in (CONFIG, SPECIALS)):
        return {}
    ranked = sorted(named, key=lambda special: order.index(special.file))
    return {special.role: special for special in ranked if special.role != "extra"}


def _added_token(token: Mapping[str, Any], file: str, id: int) -> AddedToken:
    flags = {flag: bool(token.get(flag, False)) for flag in _FLAGS}
    return AddedToken(str(token["content"]), id, file=file, **flags)


def _declared(configs: Mapping[str, Mapping[str, Any]]) -> Iterator[AddedToken]:
    """Yield the added tokens declared outside ``tokenizer.json``."""
    stored = configs.get(CONFIG, {}).get("added_tokens_decoder")
    for number, token in stored.items() if isinstance(stored, Mapping) else ():
        if str(number).isdecimal() and isinstance(token, Mapping) and _content(token) is not None:
            yield _added_token({"normalized": not token.get("special", False), **token}, CONFIG, int(number))
    for content, number in configs.get(ADDED, {}).items():
        if _number(number) is not None:
            yield _added_token({"content": content}, ADDED, int(number))


def _ids_of(configs: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, tuple[int, ...]]:
    """Return the ids each configuration names; that of the language model fills what the outer one leaves out."""
    found = {}
    for file in (GENERATION, MODEL):
        config = configs.get(file, {})
        nested = [config[name] for name in _NESTED if isinstance(config.get(name), Mapping)] if file == MODEL else []
        value = next((part[key] for part in (config, *nested) if part.get(key) is not None), None)
        ids = tuple(id for id in (value if isinstance(value, list) else [value]) if type(id) is int)
        if ids:
            found[file] = ids
    return found


def _deep(config: Mapping[str, Any], key: str) -> Any:
    """Return a value of the language model: from its own configuration, else from the outer one."""
    for name in _NESTED:
        inner = config.get(name)
        if isinstance(inner, Mapping) and (found := _deep(inner, key)) is not None:
            return found
    return config.get(key)


def _number(value: Any) -> int | None:
    """Return a whole number that is a limit; None for anything else, and for "no limit"."""
    return value if type(value) is int and 0 <= value < _NO_LIMIT else None


def _around(processor: Any) -> tuple[tuple[Named, ...], tuple[Named, ...]]:
    """Return what a post-processor puts before and after a text.

    Examples
    --------
    >>> _around({"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]})
    ((Named(id=0, text='<s>'),), (Named(id=2, text='</s>'),))
    """
    if not isinstance(processor, Mapping):
        return (), ()
    kind = processor.get("type")
    if kind == "Sequence":
        parts = [_around(part) for part in processor.get("processors", ())]
        return tuple(n for part in parts for n in part[0]), tuple(n for part in parts for n in part[1])
    if kind in ("BertProcessing", "RobertaProcessing"):
        (first, first_id), (last, last_id) = processor["cls"], processor["sep"]
        return (Named(first_id, first),), (Named(last_id, last),)
    return _around_template(processor) if kind == "TemplateProcessing" else ((), ())


def _around_template(processor: Mapping[str, Any]) -> tuple[tuple[Named, ...], tuple[Named, ...]]:
    before, after, text_seen = list[Named](), list[Named](), False
    for piece in processor.get("single", ()):
        text_seen |= "Sequence" in piece
        token = piece.get("SpecialToken", {}).get("id")
        stored = processor.get("special_tokens", {}).get(token)
        if stored:
            (after if text_seen else before).extend(map(Named, stored["ids"], stored["tokens"]))
    return tuple(before), tuple(after)


# ---------------------------------------------------------------- rows of the embedding


def _weights(reader: _Reader) -> list[Rows]:
    """Return the weights over the vocabulary, from the headers of the safetensors files."""
    files = _weight_files(reader)
    if not files and (other := _other_weights(reader.folder)):
        reader.note(
            other, "holds weights in a form that is not read, so the rows of the embedding are not known", False
        )
    return [row for file in files for row in _rows_in(reader, file)]


def _other_weights(folder: Path) -> str | None:
    patterns = ("pytorch_model*.bin", "*.gguf", "consolidated*.pth")
    return next((path.name for pattern in patterns for path in sorted(folder.glob(pattern))), None)


def _weight_files(reader: _Reader) -> list[str]:
    """Return the files to look into: by an index those that hold an embedding, else all."""
    index = (reader.json("model.safetensors.index.json", HEADER) or {}).get("weight_map")
    if not isinstance(index, Mapping):
        return [path.name for path in sorted(reader.folder.glob("*.safetensors"))[:MAX_FILES] if path.is_file()]
    wanted = {file for tensor, file in index.items() if _EMBEDDING.search(tensor) and isinstance(file, str)}
    plain = sorted(file for file in wanted if file not in ("", "..") and Path(file).name == file)
    for file in plain:
        if not (reader.folder / file).is_file():
            reader.note(file, "is named by model.safetensors.index.json and is not here", False)
    return [file for file in plain if (reader.folder / file).is_file()][:MAX_FILES]


def _rows_in(reader: _Reader, file: str) -> list[Rows]:
    try:
        header = _header(reader.folder / file)
    except (OSError, ValueError, RecursionError) as error:
        reader.note(file, f"has no readable safetensors header: {_first_line(error)}")
        return []
    found = []
    for tensor, entry in header.items():
        if _EMBEDDING.search(tensor) and isinstance(entry, Mapping):
            shape = entry.get("shape")
            if entry.get("dtype") in _FLOATS and isinstance(shape, list) and len(shape) == 2 and _number(shape[0]):
                found.append(Rows(tensor, file, shape[0]))
    return found


def _header(path: Path) -> dict[str, Any]:
    """Return the header of a safetensors file: 8 bytes of length (little-endian), then JSON; no weight is read."""
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 2 <= length <= min(HEADER, path.stat().st_size - 8):
            raise ValueError(f"it claims {length:,} bytes")
        header = json.loads(stream.read(length))
    if not isinstance(header, dict):
        raise ValueError(f"it is a {type(header).__name__}")
    return header


# ---------------------------------------------------------------- facts


@dataclasses.dataclass(frozen=True)
class Fact:
    """Something the files prove.

    Attributes
    ----------
    rule : str
        Its name, in the style of the doctor's findings.
    severity : str
        "error": training or generation goes wrong; "warning": it goes wrong with some programs; "info": worth knowing.
    detail : str
        One English sentence: which files, what they say, what follows.
    tokens : tuple of Named
        The evidence, at most `SHOWN`.
    values : mapping
        The same as plain values, for a sentence in another language or a repair.
    """

    rule: str
    severity: str
    detail: str
    tokens: tuple[Named, ...] = ()
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)


Rule = Callable[[ModelFolder, frozenset[int]], Iterator[Fact]]


def facts(folder: ModelFolder, terminators: Collection[int] = ()) -> list[Fact]:
    """Return what the files alone prove, in a fixed order.

    Parameters
    ----------
    folder : ModelFolder
    terminators : collection of int
        Ids the template ends an assistant turn with; only rendering can tell. Empty: not known, and the rules that
        need them are silent.

    Returns
    -------
    list of Fact
        Roles are judged only where a configuration names some: a ``tokenizer.json`` alone says nothing about them.
    """
    ends = frozenset(terminators)
    return [fact for rule in _RULES for fact in rule(folder, ends)]


def _fact(rule: str, severity: str, detail: str, tokens: Iterable[Named] = (), **values: Any) -> Fact:
    return Fact(rule, severity, detail, tuple(itertools.islice(tokens, SHOWN)), values)


def _list(tokens: Sequence[Named]) -> str:
    """Spell tokens for a sentence: the first five."""
    rest = f" and {len(tokens) - 5} more" if len(tokens) > 5 else ""
    return ", ".join(f"{token.text!r} ({'no id' if token.id is None else token.id})" for token in tokens[:5]) + rest


# ---------------------------------------------------------------- facts about files and templates


def _files(folder: ModelFolder, _: frozenset[int]) -> Iterator[Fact]:
    for note in folder.unread:
        rule, severity = ("FILE_UNREADABLE", "warning") if note.damaged else ("WEIGHTS_NOT_READ", "info")
        yield _fact(rule, severity, f"{note.file} {note.cause}", file=note.file, cause=note.cause)


def _template_rules(folder: ModelFolder, _: frozenset[int]) -> Iterator[Fact]:
    names, template = list(folder.served), folder.template
    if template is None:
        if folder.whole:
            yield _fact("NO_TEMPLATE", "warning", "no file holds a chat template, so conversations cannot be rendered")
        return
    if not template.source.strip():
        yield _fact("TEMPLATE_EMPTY", "error", f"the chat template in {template.file} is empty", file=template.file)
    if template.file in (LEGACY, PROCESSOR) and folder.whole:
        detail = f"only {template.file} holds a chat template; the tokenizer alone has none, a processor reads this one"
        yield _fact("TEMPLATE_ONLY_FOR_PROCESSOR", "warning", detail, file=template.file)
    if len(names) > 1:
        tools = "; conversations with tools are rendered by 'tool_use'" if "tool_use" in names else ""
        yield _fact("SEVERAL_TEMPLATES", "info", f"{len(names)} chat templates: {', '.join(names)}{tools}", names=names)
    if "default" not in names:
        detail = f"no chat template is called 'default' ({', '.join(names)}); transformers refuses to choose"
        yield _fact("NO_DEFAULT_TEMPLATE", "error", detail, names=names)


def _template_files(folder: ModelFolder, _: frozenset[int]) -> Iterator[Fact]:
    files = {template.file for template in folder.templates}
    more = sorted(file for file in files if file.startswith(f"{MORE_JINJA}/"))
    if LEGACY in files and more:
        detail = f"{LEGACY} and {more[0]} are both there; a processor of transformers refuses to load such a folder"
        yield _fact("TEMPLATE_FILES_CONFLICT", "warning", detail, files=[LEGACY, *more])
    for other in folder.templates:
        winner = folder.served.get(other.name)
        if winner is not None and winner.file != other.file and not winner.same(other):
            yield _differ(winner, other)


def _differ(winner: StoredTemplate, other: StoredTemplate) -> Fact:
    pairs = itertools.zip_longest(_lines(winner.source).split("\n"), _lines(other.source).split("\n"))
    line = next(number for number, (one, two) in enumerate(pairs, 1) if one != two)
    who = "a processor takes the second" if other.file in (LEGACY, PROCESSOR) else "the second is not read"
    detail = f"{winner.file} and {other.file} hold different templates from line {line} on; the first serves, {who}"
    values = {"winner": winner.file, "other": other.file, "name": other.name, "line": line}
    return Fact("TEMPLATES_DIFFER", "warning", detail, values=values)


# ---------------------------------------------------------------- facts about roles and stop ids


def _role_tokens(folder: ModelFolder, _: frozenset[int]) -> Iterator[Fact]:
    """Spellings a configuration names that are no tokens."""
    tokenizer = folder.tokenizer
    if tokenizer is None:
        return
    for special in folder.roles.values():
        if special.id is None:
            yield _not_a_token(folder, tokenizer, special)
    extra = {special.token for special in folder.named if special.role == "extra" and special.id is None}
    if extra:
        tokens = [Named(None, token) for token in sorted(extra)]
        detail = f"{_list(tokens)}: named as special, but not in {TOKENIZER}; transformers adds them with new ids"
        yield _fact("SPECIAL_NOT_A_TOKEN", "warning", detail, tokens, role="extra", count=len(tokens))


def _not_a_token(folder: ModelFolder, tokenizer: AutoTokenizer, special: Special) -> Fact:
    pieces, new = folder.evidence(tokenizer.encode(special.token)), tokenizer.max_id + 1
    alike = next((token.content for token in folder.added if _fold(token.content) == _fold(special.token)), None)
    beyond = folder.limit is not None and new >= folder.limit
    detail = (
        f"{special.file} names {special.token!r} as {special.role}_token; {TOKENIZER} has no such token and cuts it"
        f" into {len(pieces)}; transformers adds it as id {new}"
        f"{f', above the {folder.limit:,} rows of the embedding' if beyond else ''}"
        f"{f'; {alike!r} looks alike and is a token' if alike else ''}"
    )
    rule = f"{special.role.upper()}_NOT_A_TOKEN" if special.role in ("eos", "pad", "bos") else "SPECIAL_NOT_A_TOKEN"
    severity = "error" if special.role == "eos" or beyond else "warning"
    values = {"role": special.role, "file": special.file, "new_id": new, "pieces": len(pieces), "lookalike": alike}
    return _fact(rule, severity, detail, (special.evidence, *pieces), **values)


def _fold(token: str) -> str:
    """Return a spelling with the signs that look alike made one.

    Examples
    --------
    >>> _fold("<｜im▁end｜>") == _fold("<|im_end|>")
    True
    """
    return token.replace("｜", "|").replace("▁", "_").casefold()


def _roles_disagree(folder: ModelFolder, _: frozenset[int]) -> Iterator[Fact]:
    for other in folder.named:
        winner = folder.roles.get(other.role)
        if winner is not None and other.token != winner.token and other.file != TOKENIZER:
            detail = (
                f"{winner.file} names {winner.token!r} as {other.role}_token and {other.file} names {other.token!r};"
                " transformers takes the first"
            )
            values = {"role": other.role, "winner": winner.file, "other": other.file}
            yield _fact("SPECIAL_TOKENS_DISAGREE", "warning", detail, (winner.evidence, other.evidence), **values)


def _eos(folder: ModelFolder, _: frozenset[int]) -> Iterator[Fact]:
    """The end token of the tokenizer, of generation and of the model."""
    if folder.generation_stops is None:
        return
    (file, ids), eos = folder.generation_stops, folder.roles.get("eos")
    if not ids:
        detail = f"{file} names no eos_token_id, so generation ends only at its length limit"
        yield _fact("NO_STOP_ID", "error" if file == GENERATION else "warning", detail, file=file)
    elif eos is not None and eos.id is not None and eos.id not in ids:
        tokens = (eos.evidence, *folder.evidence(ids))
        detail = f"{eos.file} ends with {_list(tokens[:1])}, but generation stops at {_list(tokens[1:])}, by {file}"
        yield _fact("EOS_DISAGREES", "warning", detail, tokens, first=eos.file, second=file, ids=list(ids))
    others = [id for id in folder.stops.get(MODEL, ()) if id not in ids]
    if file == GENERATION and ids and others:
        tokens = folder.evidence(others)
        detail = f"{MODEL} ends with {_list(tokens)}, which {GENERATION} does not name; {GENERATION} serves"
        yield _fact("EOS_DISAGREES", "info", detail, tokens, first=MODEL, second=GENERATION, ids=list(ids))


def _terminators(folder: ModelFolder, ends: frozenset[int]) -> Iterator[Fact]:
    """The ids a template ends turns with against the ids generation stops at."""
    stops, eos = folder.generation_stops, folder.roles.get("eos")
    missing = sorted(ends.difference(stops[1])) if stops else []
    if stops and missing:
        tokens, merged = folder.evidence(missing), list(dict.fromkeys((*stops[1], *missing)))
        detail = (
            f"the template ends a turn with {_list(tokens)}, and {stops[0]} does not stop there; set its eos_token_id"
            f" to {merged}, or give the server stop_token_ids={missing}"
        )
        values = {"file": stops[0], "stop_token_ids": missing, "eos_token_id": merged}
        yield _fact("STOP_TOKEN_NOT_IN_GENERATION_CONFIG", "error", detail, tokens, **values)
    if ends and stops is None and eos is not None and eos.id is not None and eos.id not in ends:
        tokens = (eos.evidence, *folder.evidence(sorted(ends)))
        detail = f"the template ends a turn with {_list(tokens[1:])}, the tokenizer's eos_token is {eos.token!r}"
        yield _fact("TERMINATOR_IS_NOT_EOS", "warning", detail, tokens, eos=eos.token, ids=sorted(ends))


def _configured_ids(folder: ModelFolder, _: frozenset[int]) -> Iterator[Fact]:
    """Ids in configurations that no token has, or that give a role to another token than the tokenizer does."""
    for role, by_file in (("eos", folder.stops), ("pad", folder.pads), ("bos", folder.bos)):
        for file, ids in by_file.items():
            lost = [id for id in ids if folder.spell(id) is None] if folder.tokenizer else []
            if lost:
                severity = "info" if role != "eos" else "error" if len(lost) == len(ids) else "warning"
                detail = f"{file} names {role}_token_id {', '.join(map(str, lost))}; the tokenizer has no such id"
                yield _fact("ID_NOT_A_TOKEN", severity, detail, file=file, role=role, ids=lost)
            special = folder.roles.get(role)
            if role != "eos" and not lost and special and special.id is not None and special.id not in ids:
                tokens = (special.evidence, *folder.evidence(ids))
                detail = f"{special.file} has {role}_token {_list(tokens[:1])}, {file} has {_list(tokens[1:])}"
                yield _fact(f"{role.upper()}_DISAGREES", "info", detail, tokens, first=special.file, second=file)


def _pad(folder: ModelFolder, ends: frozenset[int]) -> Iterator[Fact]:
    pad, eos = folder.roles.get("pad"), folder.roles.get("eos")
    stops = set(folder.generation_stops[1]) if folder.generation_stops else set()
    if pad is None:
        if eos is not None:
            known = {file: ids[0] for file, ids in folder.pads.items()}
            also = "".join(f"; {file} has pad_token_id {id}" for file, id in known.items())
            detail = f"no pad_token is named{also}; many trainers then take the end token, and mask it by id"
            yield _fact("PAD_MISSING", "warning", detail, folder.evidence(known.values()), configured=known)
    elif eos is not None and pad.token == eos.token:
        detail = (
            f"{pad.token!r} is pad_token and eos_token; a trainer that masks padding by id masks the end of answers"
        )
        yield _fact("PAD_IS_EOS", "warning", detail, (pad.evidence,), file=pad.file)
    elif pad.id is not None and pad.id in stops | ends:
        what = "the template ends turns with it" if pad.id in ends else "generation stops at it"
        detail = (
            f"the pad_token {pad.token!r} has another job: {what}; a trainer that masks padding by id masks it there"
        )
        severity = "warning" if pad.id in ends else "info"
        yield _fact("PAD_IS_STOP", severity, detail, (pad.evidence,), ends_turn=pad.id in ends)


def _added_around(folder: ModelFolder, _: frozenset[int]) -> Iterator[Fact]:
    """What the post-processor writes, and what the flags claim it writes."""
    cases = (
        ("bos", folder.before, "info", "puts {} before every text; a template that writes it as well doubles it"),
        ("eos", folder.after, "warning", "puts {} behind every text; behind a prompt it is an end before the answer"),
    )
    for role, tokens, severity, what in cases:
        if tokens:
            detail = f"{TOKENIZER} {what.format(_list(tokens))}"
            yield _fact(f"{role.upper()}_ADDED_BY_TOKENIZER", severity, detail, tokens)
        flag = folder.configs.get(CONFIG, {}).get(f"add_{role}_token")
        if isinstance(flag, bool) and flag != bool(tokens) and TOKENIZER in folder.configs:
            detail = (
                f"{CONFIG} says add_{role}_token is {str(flag).lower()}, {TOKENIZER} adds {_list(tokens) or 'none'};"
                " versions of transformers follow one or the other"
            )
            yield _fact(f"{role.upper()}_FLAG_DISAGREES", "warning", detail, tokens, flag=flag, adds=bool(tokens))


# ---------------------------------------------------------------- facts about added tokens


def _flags(folder: ModelFolder, ends: frozenset[int]) -> Iterator[Fact]:
    """Added tokens that are left in, that eat blanks, or that are found as whole words only."""
    used = folder.used_ids(ends)
    for rule, what, test in _FLAG_RULES:
        groups: dict[bool, list[Named]] = {True: [], False: []}
        for token in filter(test, folder.effective()):
            # A header is written, never generated: that it is left in harms nobody. What it strips, it strips anyway.
            written = rule != "ADDED_TOKEN_NOT_SPECIAL" and folder.writes(token.content)
            groups[token.id in used or written].append(Named(token.id, token.content))
        for at_work, found in groups.items():
            if found:
                severity = "warning" if at_work else "info"
                yield _fact(rule, severity, f"{_list(found)}: {what}", found, count=len(found), used=at_work)


_FLAG_RULES: tuple[tuple[str, str, Callable[[AddedToken], bool]], ...] = (
    (
        "ADDED_TOKEN_NOT_SPECIAL", "not special, so skip_special_tokens leaves it in the text",
        lambda token: not token.special and MARKER.fullmatch(token.content) is not None,
    ),
    ("ADDED_TOKEN_STRIPS", "takes away the blanks and line feeds beside it", lambda one: one.lstrip or one.rstrip),
    ("ADDED_TOKEN_SINGLE_WORD", "found only where no letter stands beside it", lambda token: token.single_word),
)  # fmt: skip


def _unreachable(folder: ModelFolder, ends: frozenset[int]) -> Iterator[Fact]:
    """Tokens whose spelling does not become their id, not even where control tokens are parsed."""
    tokenizer = folder.tokenizer
    if tokenizer is None:
        return
    roles = [special.evidence for role, special in folder.roles.items() if special.id is not None and role != "unk"]
    unknown = folder.roles["unk"].token if "unk" in folder.roles else None
    added = [
        Named(token.id, token.content) for token in folder.added[:MAX_TOKENS] if token.content not in ("", unknown)
    ]
    tokens = dict.fromkeys([*roles, *added])
    lost = [token for token in tokens if token.id not in tokenizer.encode(token.text, parse_special=True)]
    if lost:
        severity = "error" if folder.at_work(lost, ends) else "warning"
        detail = f"{_list(lost)}: written in a text, the spelling does not become this id"
        yield _fact("TOKEN_UNREACHABLE", severity, detail, lost, count=len(lost))


def _lookalikes(folder: ModelFolder, _: frozenset[int]) -> Iterator[Fact]:
    groups: dict[str, list[Named]] = {}
    for token in folder.added:
        if MARKER.fullmatch(token.content):
            groups.setdefault(_fold(token.content), []).append(Named(token.id, token.content))
    for tokens in groups.values():
        if len(tokens) > 1:
            yield _fact("LOOKALIKE_TOKENS", "warning", f"{_list(tokens)} look alike and are different tokens", tokens)


def _declarations(folder: ModelFolder, ends: frozenset[int]) -> Iterator[Fact]:
    """Declared added tokens against those of ``tokenizer.json``."""
    for file in (CONFIG, ADDED) if folder.tokenizer else ():
        declared = [Named(token.id, token.content) for token in folder.declared if token.file == file]
        wrong = {token: id for token in declared if (id := folder.id(token.text)) not in (None, token.id)}
        if wrong:
            first, right = next(iter(wrong.items()))
            detail = f"{file} declares {_list(list(wrong))}; in {TOKENIZER} {first.text!r} has id {right}"
            ids = {token.text: id for token, id in itertools.islice(wrong.items(), SHOWN)}
            yield _fact("TOKEN_IDS_DISAGREE", "error", detail, wrong, file=file, ids=ids)
        missing = [token for token in declared if folder.id(token.text) is None]
        if missing:
            severity = "error" if folder.at_work(missing, ends) else "warning"
            detail = f"{file} declares {_list(missing)}; {TOKENIZER} holds none so, and only some programs add them"
            yield _fact("ADDED_TOKEN_MISSING", severity, detail, missing, file=file, count=len(missing))


def _other_flags(folder: ModelFolder, _: frozenset[int]) -> Iterator[Fact]:
    """Flags of ``added_tokens_decoder`` against those of ``tokenizer.json``."""
    differing = {
        Named(held.id, held.content): [flag for flag in _FLAGS if getattr(held, flag) != getattr(serving, flag)]
        for held, serving in zip(folder.added, folder.effective(), strict=True)
        if held != serving
    }
    if differing:
        flags = sorted(set(itertools.chain.from_iterable(differing.values())))
        detail = (
            f"{CONFIG} and {TOKENIZER} give {_list(list(differing))} different flags ({', '.join(flags)});"
            " transformers takes the first"
        )
        severity = "info" if flags == ["normalized"] else "warning"
        yield _fact("ADDED_TOKEN_FLAGS_DISAGREE", severity, detail, differing, flags=flags, count=len(differing))


# ---------------------------------------------------------------- facts about sizes and text


def _sizes(folder: ModelFolder, _: frozenset[int]) -> Iterator[Fact]:
    """The rows of the weights against the configuration."""
    size, stored = folder.vocab_size, folder.embeddings
    if stored and size is not None and all(found.rows != size for found in stored):
        first = stored[0]
        detail = f"{first.tensor} in {first.file} has {first.rows:,} rows, {MODEL} says vocab_size {size:,}"
        yield _fact("EMBEDDINGS_DISAGREE", "error", detail, file=first.file, rows=first.rows, vocab_size=size)


def _vocabulary(folder: ModelFolder, ends: frozenset[int]) -> Iterator[Fact]:
    """The ids of the tokenizer against the rows of the embedding."""
    tokenizer, limit = folder.tokenizer, folder.limit
    if tokenizer is None or limit is None or tokenizer.max_id < limit:
        return
    where, added = folder.embeddings[0].file if folder.embeddings else MODEL, {token.id for token in folder.added}
    ids = itertools.chain(
        range(limit, min(tokenizer.max_id, limit + MAX_TOKENS) + 1), sorted(added), (tokenizer.max_id,)
    )
    beyond = [Named(id, text) for id in dict.fromkeys(ids) if id >= limit and (text := folder.spell(id)) is not None]
    at_work = folder.at_work(beyond, ends) or any(token.id not in added for token in beyond)
    detail = f"{_list(beyond)}: no row for them, {where} has {limit:,}; such an id crashes, or reads what it should not"
    values = {"file": where, "rows": limit, "max_id": tokenizer.max_id}
    yield _fact("VOCAB_EXCEEDS_EMBEDDINGS", "error" if at_work else "warning", detail, beyond, **values)


def _lengths(folder: ModelFolder, _: frozenset[int]) -> Iterator[Fact]:
    most, trained = folder.model_max_length, folder.max_positions
    if most is not None and trained is not None and most > trained:
        detail = f"{CONFIG} allows {most:,} tokens, {MODEL} has {trained:,} positions"
        yield _fact("LENGTH_DISAGREES", "info", detail, model_max_length=most, max_positions=trained)


def _stored_calls(folder: ModelFolder, _: frozenset[int]) -> Iterator[Fact]:
    """Settings of somebody's last call that were saved with the tokenizer."""
    for key, does in (("truncation", "cuts"), ("padding", "pads")):
        stored = folder.configs.get(TOKENIZER, {}).get(key)
        if isinstance(stored, Mapping):
            detail = (
                f"{TOKENIZER} holds settings for {key}; a program that uses it as it is {does} every text; set null"
            )
            yield _fact(f"{key.upper()}_STORED", "warning", detail, settings=dict(stored))
    if folder.configs.get(CONFIG, {}).get("clean_up_tokenization_spaces") is True:
        detail = f"{CONFIG} says clean_up_tokenization_spaces; transformers before 5 then decodes 'a .' as 'a.'"
        yield _fact("DECODE_CLEANS_BLANKS", "info", detail, file=CONFIG)


def _text(folder: ModelFolder, _: frozenset[int]) -> Iterator[Fact]:
    """What happens to a text on its way to ids and back."""
    tokenizer = folder.tokenizer
    if tokenizer is None:
        return
    back = {text: tokenizer.decode(tokenizer.encode(text)) for text in PROBES}
    lost = {text: got for text, got in back.items() if got != text}
    if lost:
        blanks = all(_bare(text) == _bare(got) for text, got in lost.items())
        shown = ", ".join(f"{text!r} as {got!r}" for text, got in list(lost.items())[:3])
        detail = f"the tokenizer gives back {shown}; {'only blanks change' if blanks else 'letters are lost'}"
        yield _fact("TOKENIZER_DROPS_TEXT", "info" if blanks else "warning", detail, texts=lost, blanks=blanks)
    ids = tokenizer.encode("yes")
    if ids and tokenizer.token_bytes(ids[0])[:1] == b" ":
        tokens = folder.evidence(ids)
        detail = f"a text that begins without a blank gets one: 'yes' becomes {_list(tokens)}"
        yield _fact("TOKENIZER_ADDS_BLANK", "info", detail, tokens, text="yes")


def _bare(text: str) -> str:
    return re.sub(r"[\s▁]", "", text)


#: In the order the facts are told.
_RULES: tuple[Rule, ...] = (
    _files, _template_rules, _template_files, _role_tokens, _roles_disagree, _eos, _terminators, _configured_ids, _pad,
    _added_around, _flags, _unreachable, _lookalikes, _declarations, _other_flags, _sizes, _vocabulary, _lengths,
    _stored_calls, _text,
)  # fmt: skip
