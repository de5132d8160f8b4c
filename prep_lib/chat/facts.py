"""What the files of a model folder prove by themselves, nothing rendered: each a named fact with its evidence.

    files, templates   FILE_UNREADABLE, NO_TEMPLATE, TEMPLATES_DIFFER, …
    roles, stop ids    EOS_NOT_A_TOKEN, EOS_DISAGREES, STOP_TOKEN_NOT_IN_GENERATION_CONFIG, PAD_IS_EOS, …
    added tokens       ADDED_TOKEN_NOT_SPECIAL, TOKEN_UNREACHABLE, TOKEN_IDS_DISAGREE, …
    sizes, text        VOCAB_EXCEEDS_EMBEDDINGS, LENGTH_DISAGREES, TOKENIZER_DROPS_TEXT, …

One rule reads a `ModelFolder` and, where a caller knows them from rendering, the ids a template ends turns with.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prep_lib.chat.folder import (
    ADDED,
    CONFIG,
    FLAGS,
    GENERATION,
    LEGACY,
    MODEL,
    MORE_JINJA,
    PROCESSOR,
    TOKENIZER,
    AddedToken,
    ModelFolder,
    Named,
    Special,
    StoredTemplate,
)
from prep_lib.special import MARKER
from prep_lib.tokens.tokenizer import PROBES, AutoTokenizer

#: Added tokens looked at, and those shown as evidence: a folder cannot keep us busy for long.
MAX_TOKENS, SHOWN = 4096, 20


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

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = AutoTokenizer().train(["a"], vocab_size=270).save(place)
    ...     found = facts(ModelFolder.load(place))
    >>> [(fact.rule, fact.severity) for fact in found]
    [('NO_TEMPLATE', 'warning')]
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
    pairs = itertools.zip_longest(winner.lines, other.lines)
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
        Named(held.id, held.content): [flag for flag in FLAGS if getattr(held, flag) != getattr(serving, flag)]
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
