"""What the files of a model folder say: templates, special tokens, stop ids, sizes.

    chat_template.jinja, additional_chat_templates/*.jinja ─┐ the files win, all together
    tokenizer_config.json   chat_template ──────────────────┘
                            *_token ─ added_tokens_decoder? yes ─▶ this file   no ─▶ special_tokens_map.json wins
    tokenizer.json          ids, added tokens, what is put before and after a text
    generation_config.json  eos_token_id: where generation stops; config.json serves only if this file is missing
    *.safetensors           the first 8 bytes and the header: rows of the embedding

Only small files and headers are read, weights never; nothing is executed and nothing is fetched.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from prep_lib.errors import BadInput, BadParameter, BadTemplate
from prep_lib.tokens.tokenizer import AutoTokenizer

TOKENIZER, CONFIG = "tokenizer.json", "tokenizer_config.json"
SPECIALS, ADDED = "special_tokens_map.json", "added_tokens.json"
GENERATION, MODEL = "generation_config.json", "config.json"
JINJA, MORE_JINJA = "chat_template.jinja", "additional_chat_templates"
LEGACY, PROCESSOR = "chat_template.json", "processor_config.json"

#: Bytes a configuration or template may have, and a ``tokenizer.json``. Real ones stay below 2 and 40 MB.
SMALL, LARGE = 2**24, 2**28
#: Bytes of a safetensors header or index that is read; 100,000 tensors take about 15 MB.
HEADER = 2**26
#: Template and weight files looked at: a folder cannot keep us busy for long.
MAX_FILES = 256

#: Where a multimodal model keeps the configuration of its language model.
_NESTED = ("text_config", "llm_config", "language_config", "decoder", "generator", "thinker_config")
_EMBEDDING = re.compile(
    r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|embed_in)\.weight$"
    r"|^(?:shared|backbone\.embeddings?)\.weight$"
)
#: Rows of a packed tensor are not rows of the vocabulary, so only plain floats count.
_FLOATS = frozenset({"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"})
#: How an added token is looked for, see `AddedToken`.
FLAGS = ("special", "normalized", "lstrip", "rstrip", "single_word")
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
        """Tell whether both are one template."""
        return self.lines == other.lines

    @property
    def lines(self) -> list[str]:
        """Its lines as Jinja reads them: it drops the last line feed and makes CRLF one."""
        return self.source.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


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
    flags = {flag: getattr(says, flag) for flag in FLAGS}
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
    flags = {flag: bool(token.get(flag, False)) for flag in FLAGS}
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
