"""What the user's files are: their kind, columns, sizes and languages, and what of a row is its text or conversation.

files, folders, patterns ──▶ .html .warc .txt    pages    read from their bytes on
                             .jsonl .parquet …   texts    a field is the text       } by the columns of
                                                 talks    a row is a conversation   } some hundred rows
                             .npz                arrays   rows of tokens
                             tokenizer.json …    model    a tokenizer, a chat template
                             anything else       unread, named in one line

Files are opened, a few rows of some of them are read, and nothing is written.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib.chat import conversation
from prep_lib.chat.folder import ModelFolder
from prep_lib.errors import BadRecord, PrepError, UnknownName
from prep_lib.events import listen
from prep_lib.files import Span, compression, natural
from prep_lib.markup import size
from prep_lib.preflight import READ_WHOLE, UNPACKED, count_rows
from prep_lib.record import Document, Preference, Rated
from prep_lib.shards.npz import open_alike
from prep_lib.source import hub, jsonl, parquet, read
from prep_lib.source.export import rename
from prep_lib.text.language import identify

#: Files of one kind that are looked into, spread over all of them, and rows of each.
FILES, ROWS = 20, 200

#: Characters of a text that its language is told by, and texts whose language is looked at.
LOOKED, TEXTS = 2000, 100

#: Share of the rows that must have a form before they are taken for conversations.
MOST = 0.8

#: Names of fields that hold a text, the likeliest first.
TEXT_NAMES = (
    "text",
    "content",
    "body",
    "document",
    "article",
    "page_content",
    "raw_content",
    "passage",
    "story",
    "code",
)

#: Names of fields that say where a row belongs.
SOURCE_NAMES = ("source", "subset", "domain", "dataset", "category", "url_host")

#: Names of the two sides of a conversation that no known form has.
ASKED = ("question", "instruction", "prompt", "user", "human", "input", "problem", "query")
ANSWERED = ("answer", "output", "response", "assistant", "completion", "reply", "solution", "target", "gpt")


@dataclass(frozen=True)
class Group:
    """Files that one recipe reads.

    Parameters
    ----------
    kind : str
        pages, texts, talks or arrays.
    paths : tuple of str
        Absolute, in natural order.
    bytes : int
        Of all files, as they lie on disk.
    rows : int or None
        None: nobody knows without reading everything.
    exact : bool
        False: `rows` is estimated from the size of those that were looked at.
    looked : int
        Rows that were read.
    columns : tuple of str
    text, source : str
        The field of a row that is its text, and the one that says where it belongs; empty: none.
    form : str
        Of the conversations, as `chat.conversation` names it.
    processor : str
        sft, dpo or kto.
    renames : mapping
        Columns that need another name before the form is a known one.
    bad : float
        Share of the rows looked at that cannot be read.
    why : str
        The commonest reason.
    lengths : tuple of int
        Tokens of each row looked at, about.
    languages : mapping
        Share of the characters looked at by language, largest first.
    parts : tuple of Group
        Each file of rows by itself, where there are several.
    """

    kind: str
    paths: tuple[str, ...]
    bytes: int = 0
    rows: int | None = None
    exact: bool = True
    looked: int = 0
    columns: tuple[str, ...] = ()
    text: str = ""
    source: str = ""
    form: str = ""
    processor: str = ""
    renames: Mapping[str, str] = field(default_factory=dict)
    bad: float = 0.0
    why: str = ""
    lengths: tuple[int, ...] = ()
    languages: Mapping[str, float] = field(default_factory=dict)
    parts: tuple[Group, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens of all rows, about."""
        mean = sum(self.lengths) / len(self.lengths) if self.lengths else 0.0
        return int(mean * (self.rows or len(self.lengths)))

    @property
    def chinese(self) -> float:
        """Share of the characters that are Chinese."""
        return sum(share for code, share in self.languages.items() if code.startswith("zh"))

    def about(self) -> str:
        """Say in one line what was found."""
        endings = Counter(ending(path).lower() for path in self.paths)
        files = ", ".join(f"{count:,} {ending}" for ending, count in endings.most_common(4))
        told = [f"{files} ({size(self.bytes)})"]
        if self.rows is not None and self.kind != "pages":
            told.append(f"{'' if self.exact else 'about '}{self.rows:,} rows")
        if self.kind == "talks":
            told.append(f"conversations, {self.form}, for {self.processor}")
        elif self.kind == "texts":
            told.append(f"texts in the field {self.text!r}")
        else:
            told.append({"pages": "pages and whole texts", "arrays": "rows of arrays"}[self.kind])
        spoken = ", ".join(f"{code} {share:.0%}" for code, share in [*self.languages.items()][:3] if share >= 0.01)
        return "; ".join([*told, *([f"languages {spoken}"] if spoken else [])])


@dataclass(frozen=True)
class Model:
    """A tokenizer or a chat template among the files.

    Parameters
    ----------
    place : str
        A folder or a file, absolute.
    tokenizer, template : bool
        What it holds.
    chatml : bool
        Whether the tokenizer has the tokens of ChatML.
    limit : int or None, tokens
        What its configuration says a row may have.
    """

    place: str
    tokenizer: bool
    template: bool
    chatml: bool = False
    limit: int | None = None


@dataclass
class Survey:
    """What was found: groups, models, and one line for each place that cannot be read."""

    groups: list[Group] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def look(named: Sequence[str], here: Path | None = None) -> Survey:
    """Look at files, folders and patterns, and sort them into what recipes read.

    Parameters
    ----------
    named : sequence of str
    here : Path or None
        What relative paths mean; None: the current folder.
    """
    found, kinds = Survey(), defaultdict[str, list[str]](list)
    for text in named:
        strange = list[str]()
        try:
            for path in _files(text, here or Path.cwd()):
                try:
                    _sort(path, kinds, found)
                except UnknownName:
                    strange.append(f"{path}: no file of a known kind")
                except (PrepError, OSError) as error:
                    strange.append(f"{path}: {error}")
        except (OSError, ValueError) as error:
            strange.append(f"{text}: {error}")
        found.unread += [strange[0] + _more(strange)] if strange else []
    looks = {"pages": _pages, "rows": _row_files, "npz": _arrays}
    with listen(lambda event: None, instead=True):
        for kind, paths in kinds.items():
            found.groups += looks[kind](sorted(set(paths), key=natural), found.unread)
    return found


def _files(text: str, here: Path) -> Iterator[str]:
    """Yield the files a word stands for; a model's folder stands for itself."""
    place = Path(os.path.abspath(here / Path(text).expanduser()))
    if place.is_dir() and not _is_model(place):
        found = sorted(_walk(place), key=natural)
        if not found:
            raise ValueError("holds nothing that could be read")
        yield from found
    elif place.exists():
        yield os.path.abspath(place)
    elif any(sign in text for sign in "*?["):
        matched = sorted(glob.glob(str(place), recursive=True), key=natural)
        if not matched:
            raise ValueError("no file matches")
        yield from (os.path.abspath(path) for path in matched if not os.path.isdir(path))
    else:
        raise ValueError(
            "no such file; for a data set on the hub give its name to a recipe: "
            f"prep run posttrain -p 20_export.dataset={text}, or prep run pretrain -p 10_read.dataset={text}"
        )


def _is_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"))


def _walk(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for model in [name for name in folders if _is_model(Path(place, name))]:
            folders.remove(model)
            yield os.path.join(place, model)
        yield from (os.path.join(place, name) for name in names if not name.startswith("."))


def _sort(path: str, kinds: dict[str, list[str]], found: Survey) -> None:
    """Put a file where it belongs."""
    if path.endswith(".npz"):
        kinds["npz"].append(path)
    elif os.path.isdir(path) or path.endswith(".jinja") or _is_tokenizer(path):
        found.models.append(_model(path))
    else:
        kind = read.kind_of(path)  # raises, naming the endings that are known
        kinds["pages" if kind in (*read.WHOLE, "warc") else "rows"].append(path)


def _is_tokenizer(path: str) -> bool:
    if not path.endswith(".json") or os.path.getsize(path) > READ_WHOLE:
        return False
    with contextlib.suppress(OSError, ValueError):
        told = json.loads(Path(path).read_bytes())
        return isinstance(told, dict) and {"model", "added_tokens"} <= told.keys()
    return False


def _model(path: str) -> Model:
    folder = ModelFolder.load(path)
    known = folder.tokenizer
    chatml = known is not None and all(folder.id(token) is not None for token in ("<|im_start|>", "<|im_end|>"))
    limit = folder.model_max_length or folder.max_positions
    return Model(path, known is not None, folder.template is not None, chatml, limit)


# ── what is in them ──────────────────────────────────────────────────────────────────────────────────────────────────


def _bytes(paths: Iterable[str]) -> int:
    return sum(os.path.getsize(path) for path in paths)


def _some(paths: Sequence[str]) -> list[str]:
    """Return files spread over all of them."""
    step = max(1, len(paths) // FILES)
    return list(paths[::step][:FILES])


def _pages(paths: Sequence[str], unread: list[str]) -> list[Group]:
    texts = list[str]()
    for path in _some(paths):
        for _, found in itertools.islice(read.documents(Span(path)), ROWS):
            if isinstance(found, Document):
                # Of a page that is not extracted yet: what stands between its tags.
                texts.append(re.sub(r"(?s)<(script|style).*?</\1>|<[^>]*>", " ", found.text[:50_000]))
    if not texts:
        unread.append(f"{paths[0]}{_more(paths)}: nothing in it can be read as a page or a text")
        return []
    lengths = tuple(tokens(text) for text in texts)
    whole = all(read.kind_of(path) in read.WHOLE for path in paths)
    rows = len(paths) if whole else None
    return [
        Group("pages", tuple(paths), _bytes(paths), rows, lengths=lengths, looked=len(texts), languages=spoken(texts))
    ]


def _arrays(paths: Sequence[str], unread: list[str]) -> list[Group]:
    """Group npz files by the folder that `30_preshuffle` is given."""
    folders = defaultdict[str, list[str]](list)
    for path in paths:
        folder = os.path.dirname(path)
        folders[os.path.dirname(folder) if os.path.basename(folder) in ("train", "eval") else folder].append(path)
    out = []
    for mine in folders.values():
        train = [path for path in mine if os.path.basename(os.path.dirname(path)) != "eval"] or mine
        try:
            readers = open_alike([Path(path) for path in train])
        except PrepError as error:
            unread.append(str(error))
            continue
        fields = readers[0].fields.values()
        named = tuple(f"{one.name} {one.dtype}{list(one.row_shape)}" for one in fields)
        single = [one.name for one in fields if not one.row_shape and np.issubdtype(one.dtype, np.integer)]
        source = next((name for name in SOURCE_NAMES if name in single), "")
        rows = sum(reader.rows for reader in readers)
        out.append(Group("arrays", tuple(mine), _bytes(mine), rows, columns=named, source=source))
    return out


def _row_files(paths: Sequence[str], unread: list[str]) -> list[Group]:
    """Look into files of rows, and put together those that mean the same."""
    alike = defaultdict[tuple[str, str], list[str]](list)
    for path in paths:
        alike[os.path.dirname(path), ending(path).lower()].append(path)
    groups = defaultdict[tuple[Any, ...], list[Group]](list)
    for mine in alike.values():
        for one in _looked_into(mine, unread):
            groups[_meaning(one)].append(one)
    return [_joined(group) for group in groups.values()]


def _meaning(one: Group) -> tuple[Any, ...]:
    return one.kind, one.form, one.processor, tuple(one.renames.items()), one.text


def _looked_into(paths: Sequence[str], unread: list[str]) -> list[Group]:
    """Look into files of one folder and ending; where many are alike, some of them speak for the rest."""
    some = _some(paths)
    found = [one for path in some if (one := _row_file(path, unread))]
    rest = [path for path in paths if path not in {*some}]
    if rest and len({_meaning(one) for one in found}) != 1:
        return [*found, *(one for path in rest if (one := _row_file(path, unread)))]
    if rest:
        rows, seen, more = sum(one.rows or 0 for one in found), sum(one.bytes for one in found), _bytes(rest)
        unseen = replace(found[0], paths=tuple(rest), looked=0, lengths=(), languages={}, bad=0.0)
        found.append(replace(unseen, bytes=more, rows=round(rows * more / max(1, seen)), exact=False))
    return found


def _row_file(path: str, unread: list[str]) -> Group | None:
    """Look into one file; None: it cannot be read, and why is noted."""
    try:
        rows = list(itertools.islice(_rows(path), ROWS))
    except (PrepError, OSError, EOFError) as error:
        unread.append(f"{path}: {error}")
        return None
    good = [row for row in rows if not isinstance(row, BadRecord)]
    if not good:
        unread.append(f"{path}: {rows[0] if rows else 'is empty'}")
        return None
    told = _understood(good)
    if told is None:
        columns = ", ".join(map(repr, good[0]))
        unread.append(f"{path}: no field of {columns} is a text or a conversation; say which with text_field")
        return None
    return _counted(path, rows, good, told)


def _rows(path: str) -> Iterator[dict[str, Any] | BadRecord]:
    kind = read.kind_of(path)
    if kind == "parquet":
        yield from (row for _, row in parquet.read_rows(Span(path, first=0)))
    elif kind == "jsonl":
        yield from (row for _, row in jsonl.read_records(Span(path)))
    else:
        yield from (hub.parsed(raw) for _, _, raw in hub.open_source(path).read(0))


def _understood(rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return what the rows are, as fields of a `Group`; None: neither texts nor conversations."""
    for renames in ({}, *_renamings(rows[0])):
        forms = Counter(form for row in rows if (form := _form(row, renames)))
        if forms and (most := forms.most_common(1)[0])[1] >= MOST * len(rows):
            return {"kind": "talks", "form": most[0], "renames": renames}
    text = _text_field(rows)
    return {"kind": "texts", "text": text, "source": _source_field(rows)} if text else None


def _form(row: dict[str, Any], renames: Mapping[str, str]) -> str:
    with contextlib.suppress(BadRecord):
        form = conversation.form_of(rename(row, dict(renames)))
        return "" if form == "text" else form
    return ""


def _renamings(row: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield names for the two sides of a conversation, by what the columns are called."""
    lower = {name.lower(): name for name in row if " " not in name}
    asked = [lower[name] for name in ASKED if name in lower]
    answered = [lower[name] for name in ANSWERED if name in lower]
    if asked and answered and asked[0] != answered[0]:
        pairs = {asked[0]: "query", answered[0]: "response"}
        yield {old: new for old, new in pairs.items() if old != new}


def _text_field(rows: Sequence[dict[str, Any]]) -> str:
    """Return the field that holds a text: by its name, or because it holds most."""
    sizes = Counter[str]()
    for row in rows:
        sizes.update({name: len(value) for name, value in row.items() if isinstance(value, str)})
    long = [name for name in TEXT_NAMES if sizes[name] >= 8 * len(rows)]
    most = sizes.most_common(1)
    return long[0] if long else most[0][0] if most and most[0][1] >= 16 * len(rows) else ""


def _source_field(rows: Sequence[dict[str, Any]]) -> str:
    """Return a field that says where a row belongs: a known name, and few values for many rows."""
    for name in SOURCE_NAMES:
        values = {value for row in rows if isinstance(value := row.get(name), str)}
        if values and len(values) <= max(1, len(rows) // 4):
            return name
    return ""


def _counted(path: str, rows: Sequence[Any], good: Sequence[dict[str, Any]], told: dict[str, Any]) -> Group:
    """Measure one file: rows, lengths, languages, and how many rows its conversations are lost with."""
    texts, processors, reasons = list[str](), Counter[str](), Counter[str]()
    reasons.update(row.reason for row in rows if isinstance(row, BadRecord))
    for row in good:
        if told["kind"] == "texts":
            texts += [row[told["text"]]] if isinstance(row.get(told["text"]), str) else []
            reasons.update([] if isinstance(row.get(told["text"]), str) else ["missing_text"])
            continue
        try:
            said = conversation.read(rename(row, dict(told["renames"])))
        except BadRecord as error:
            reasons.update([error.reason])
            continue
        processors.update(["dpo" if isinstance(said, Preference) else "kto" if isinstance(said, Rated) else "sft"])
        texts.append(_spoken(row))
    count, exact = _row_count(path, rows, good)
    return Group(
        paths=(path,), bytes=os.path.getsize(path), rows=count, exact=exact, looked=len(rows),
        columns=tuple(dict.fromkeys(name for row in good for name in row)),
        processor=processors.most_common(1)[0][0] if processors else "",
        bad=sum(reasons.values()) / len(rows), why=reasons.most_common(1)[0][0] if reasons else "",
        lengths=tuple(tokens(text) for text in texts), languages=spoken(texts), **told,
    )  # fmt: skip


def _spoken(value: Any) -> str:
    """Return all texts in a record."""
    if isinstance(value, str):
        return value
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return "\n".join(filter(None, map(_spoken, inside)))


def _row_count(path: str, rows: Sequence[Any], good: Sequence[dict[str, Any]]) -> tuple[int | None, bool]:
    if len(rows) < ROWS:
        return len(rows), True
    whole = os.path.getsize(path)
    if whole <= READ_WHOLE or path.endswith(".parquet"):
        counted = count_rows(Path(path))
        return (counted if counted is not None else sum(1 for _ in _rows(path))), True
    mean = sum(len(json.dumps(row, ensure_ascii=False, default=str).encode()) + 1 for row in good) / len(good)
    return int(whole * (UNPACKED if compression(path) else 1) / mean), False


def _joined(group: Sequence[Group]) -> Group:
    """Put files that mean the same into one group."""
    first, looked = group[0], sum(one.looked for one in group)
    shares = Counter[str]()
    for one in group:
        shares.update({code: share * sum(one.lengths) for code, share in one.languages.items()})
    total = sum(shares.values()) or 1
    known = [one.rows for one in group if one.rows is not None]
    bad = max(group, key=lambda one: one.bad)
    return Group(
        first.kind, tuple(path for one in group for path in one.paths), sum(one.bytes for one in group),
        sum(known) if len(known) == len(group) else None, all(one.exact for one in group), looked,
        tuple(dict.fromkeys(name for one in group for name in one.columns)), first.text,
        next((one.source for one in group if one.source), ""), first.form,
        first.processor, first.renames, sum(one.bad * one.looked for one in group) / max(1, looked), bad.why,
        tuple(length for one in group for length in one.lengths),
        {code: share / total for code, share in shares.most_common()}, tuple(group) if len(group) > 1 else (),
    )  # fmt: skip


def spoken(texts: Sequence[str]) -> dict[str, float]:
    """Return the share of each language in some texts, by characters, largest first."""
    shares = Counter[str]()
    for text in texts[:: max(1, len(texts) // TEXTS)]:
        piece = text[:LOOKED]
        shares.update({code: share * len(piece) for code, share in identify(piece).shares.items() if code != "zxx"})
    total = sum(shares.values())
    return {code: share / total for code, share in shares.most_common()} if total else {}


def tokens(text: str) -> int:
    """Return about how many tokens a text has: four ASCII characters to one, others nearly one each.

    Examples
    --------
    >>> tokens("four letters"), tokens("四个汉字")
    (3, 3)
    """
    plain = sum(1 for character in text if character < "\x80")
    return round(plain / 4 + (len(text) - plain) * 0.7)


def _more(paths: Sequence[str]) -> str:
    return f" and {len(paths) - 1} more" if len(paths) > 1 else ""


def ending(path: str) -> str:
    """Return how a name ends, the packing with it: ``.jsonl.gz``."""
    packed = compression(path)
    name = path.removesuffix(f".{packed}") if packed else path
    return os.path.splitext(name)[1] + (f".{packed}" if packed else "")
