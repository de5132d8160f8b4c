"""Diagnose a template by probes and data, each finding with its tokens and a repair; scan every row of a file.

    model folder ──facts──────────┐
    template ──probes and data────┼──▶ Finding(rule, severity, detail, tokens, rows, repair)
    every row of a file ──scan────┘    RowReport(index, rules, severity, tokens, trained, literal)

`diagnose` looks closely: it renders again, otherwise, and proves repairs; `repaired` applies those of the template one
upon another. `scan` renders each row once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from prep_lib.chat import folder as folders
from prep_lib.chat import rules
from prep_lib.chat.conversation import ROLES, Read, read
from prep_lib.chat.facts import Fact, facts
from prep_lib.chat.folder import ModelFolder
from prep_lib.chat.generation_tags import edited_as
from prep_lib.chat.mask import Policy, Unproven
from prep_lib.chat.probes import NULL_CONTENT, PLAIN, PROBES, STAND_IN, stand_in
from prep_lib.chat.repair import PROVING, advice, repair_of
from prep_lib.chat.rerender import markers, shared_length, thorough
from prep_lib.chat.rules import RULES, Case, Hit
from prep_lib.chat.symptoms import SEVERITIES, Finding, Repair, TokenAt, plural
from prep_lib.chat.template import BUILT_IN, ChatTemplate
from prep_lib.errors import BadInput, BadRecord, BadTemplate
from prep_lib.record import Conversation, Document, Message, Preference, Rated
from prep_lib.tokens.tokenizer import AutoTokenizer

#: What a template does to every conversation: looked for in a plain chat even where data are given.
ALWAYS = frozenset({
    "TEMPLATE_FAILS", "DOUBLE_BOS", "DOUBLE_EOS", "MARKER_NOT_SINGLE_TOKEN", "EOT_NOT_TRAINED",
    "NO_TERMINATOR_MID_TURN", "HEADER_IN_TRAINED_SPAN", "TEXT_AFTER_EOT_TRAINED", "PROMPT_IN_TRAINED_SPAN",
    "GENERATION_PROMPT_MISMATCH", "RENDER_DEPENDS_ON_DATE", "NO_GENERATION_PROMPT", "NO_GENERATION_TAGS",
    "ANSWER_STARTS_WITH_BLANK",
})  # fmt: skip
#: What cannot be told where no tokenizer was given: ours then holds every marker the template spells.
_OF_TOKENS = frozenset({
    "DOUBLE_BOS", "DOUBLE_EOS", "PAD_IS_EOS", "MARKER_NOT_SINGLE_TOKEN", "BORDER_TOKEN_MERGES",
    "LITERAL_SPECIAL_IN_CONTENT", "TOO_LONG",
})  # fmt: skip
#: Losses that are no surprise in a template that never mentions tools.
_OF_TOOLS = frozenset({"TOOLS_NOT_RENDERED", "TOOL_CALLS_DROPPED", "TOOL_RESULT_DROPPED"})

#: Probes few data look like: what only they meet is a note.
_ODD = frozenset({"system in the middle", "two answers", "empty answer", "null content"})

#: Conversations looked at closely, renderings that may pass a limit, and tokens shown of one finding.
CLOSELY, LIMITED, SHOWN = 200, 3, 20
#: Rows encoded at once by a scan.
BATCH = 256

Record = Mapping[str, Any] | Read | Sequence[Mapping[str, Any]]


# ---------------------------------------------------------------- what is looked at


@dataclass(frozen=True)
class Patient:
    """What a diagnosis was asked about: templates by name, the folder they are from, and whose tokenizer it is."""

    templates: Mapping[str, ChatTemplate]
    failed: tuple[Finding, ...] = ()
    folder: ModelFolder | None = None
    own_tokens: bool = True
    name: str = "template"

    @property
    def main(self) -> ChatTemplate | None:
        """The template that serves; None if it does not parse."""
        return next(iter(self.templates.values()), None)


def patient_of(
    place: ChatTemplate | str | Path, tokenizer: AutoTokenizer | str | Path | None, **options: Any
) -> Patient:
    """Return what is at a place, read; a template that does not parse is a finding already."""
    given = AutoTokenizer(tokenizer) if isinstance(tokenizer, str | Path) else tokenizer
    if isinstance(place, ChatTemplate):
        return _of_template(place, given)
    if "{" in str(place):
        return _of_sources({"template": str(place)}, given, None, "template", options)
    if str(place) in BUILT_IN:
        return _of_sources({str(place): BUILT_IN[str(place)]}, given, None, str(place), options)
    path = Path(place).expanduser()
    if path.is_file() and path.suffix != ".json" and not (path.parent / folders.TOKENIZER).is_file():
        return _of_sources({path.name: _text(path)}, given, None, path.name, options)
    folder = folders.load(place)
    served = {name: template.source for name, template in folder.served.items()}
    main = folder.template.name if folder.template else ""
    ordered = {main: served[main], **served} if main in served else served
    stops = tuple(dict.fromkeys(id for ids in folder.stops.values() for id in ids))
    return _of_sources(ordered, given or folder.tokenizer, folder, folder.name, {"stops": stops, **options})


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"chat/diagnose: cannot read {path}: {error}") from None


def _of_template(template: ChatTemplate, tokenizer: AutoTokenizer | None) -> Patient:
    """Take a template as it is; give it a tokenizer where it has none."""
    serving = tokenizer or template.tokenizer or stand_in(template.source)
    if serving is not template.tokenizer:
        template = edited_as(template, template.source, serving)
    own = serving is tokenizer or not serving.name.startswith(STAND_IN)
    return Patient({template.name: template}, own_tokens=own, name=template.name)


def _of_sources(
    sources: Mapping[str, str],
    tokenizer: AutoTokenizer | None,
    folder: ModelFolder | None,
    name: str,
    options: Mapping[str, Any],
) -> Patient:
    templates, failed = {}, []
    for number, (key, source) in enumerate(sources.items()):
        try:
            templates[key] = ChatTemplate(source, tokenizer or stand_in(source), name=key, **options)
        except BadTemplate as error:
            failed.append(Finding("TEMPLATE_FAILS", "error", str(error), template=key if number else ""))
    return Patient(templates, tuple(failed), folder, tokenizer is not None, name)


# ---------------------------------------------------------------- data become cases


class _Row(NamedTuple):
    """A conversation and where it came from."""

    row: int
    conversation: Conversation
    said: tuple[Mapping[str, Any], ...] | None = None
    tools: tuple[Mapping[str, Any], ...] | None = None


def _rows(row: int, record: Record, spelled: bool = True) -> list[_Row]:
    """Return the conversations of a record: two of a preference; roles as the record spells them, if asked for.

    Raises
    ------
    BadRecord
        If it cannot be read, or holds no conversation.
    """
    made: Read
    if isinstance(record, Conversation | Preference | Rated | Document):
        made = record
    else:
        record = record if isinstance(record, Mapping) else {"messages": list(record)}
        made = read(record, id=f"row {row}")
    if isinstance(made, Document):
        raise BadRecord("no_conversation", "a text has no turns")
    if isinstance(made, Preference):
        pairs = (("chosen", made.chosen), ("rejected", made.rejected))
        return [_Row(row, Conversation(f"{made.id} {name}", made.prompt + said, made.tools)) for name, said in pairs]
    talk = Conversation(made.id, made.messages, made.tools) if isinstance(made, Rated) else made
    return [_as_spelled(row, talk, record) if spelled and isinstance(record, Mapping) else _Row(row, talk)]


def _as_spelled(row: int, talk: Conversation, record: Mapping[str, Any]) -> _Row:
    """Return messages with the roles and nulls a trainer that maps nothing would hand to the template."""
    said = record.get("messages")
    plain = isinstance(said, list) and len(said) == len(talk.messages) and all(isinstance(one, Mapping) for one in said)
    if not plain or not isinstance(said, list) or not all(isinstance(one.get("role"), str) for one in said):
        return _Row(row, talk)
    messages = tuple(_spelled(message, one["role"]) for message, one in zip(talk.messages, said, strict=True))
    simple = all(one.get("content") is None or isinstance(one["content"], str) for one in said)
    tools = record.get("tools")
    raw = tuple(tools) if isinstance(tools, list) and all(isinstance(tool, Mapping) for tool in tools) else None
    return _Row(row, replace(talk, messages=messages), tuple(said) if simple else None, raw)


def _spelled(message: Message, role: str) -> Message:
    known = ROLES.get(role.casefold()) == message.role and not message.tool_calls
    return dataclasses.replace(message, role=role) if known and role != message.role else message


def _case(row: _Row, template: ChatTemplate, policy: Policy, quick: bool = False) -> Case:
    return Case(row.row, template, row.conversation, policy, row.said, row.tools, quick)


# ---------------------------------------------------------------- diagnose


def diagnose(
    template: ChatTemplate | str | Path,
    tokenizer: AutoTokenizer | str | Path | None = None,
    conversations: Iterable[Record] | None = None,
    *,
    policy: Policy | None = None,
    notes: bool = False,
    repair: bool = True,
    max_length: int | None = None,
) -> list[Finding]:
    """Return what goes wrong with a template, the worst first.

    Parameters
    ----------
    template : ChatTemplate, Jinja text, path or str
        A model folder adds what its files say, and each of its named templates is looked at. Or a name of
        `template.BUILT_IN`.
    tokenizer : AutoTokenizer, path or None
        None: the template's or the folder's own. Without any, nothing is said that depends on a vocabulary.
    conversations : iterable of Conversation, records or lists of messages, or None
        Findings come from these, and a plain chat of ours tells what the template does to any. None: from all our
        probes. Roles of a record with ``messages`` stay as it spells them: so would a trainer hand them on.
    policy : Policy or None
        None: the default one.
    notes : bool
        True: also what is only worth knowing.
    repair : bool
        False: no repair is looked for, which is the slower half.
    max_length : int or None, tokens
        Rows longer than this are told. None: the folder's own limit, if it has one.

    Examples
    --------
    >>> chat = "{% for m in messages %}<|im_start|>{{ m.role }}\\n{{ m.content | trim }}<|im_end|>{% endfor %}"
    >>> [finding.rule for finding in diagnose(chat)]
    ['CONTENT_TRIMMED']
    """
    rows: list[_Row] | None = None
    bad: list[tuple[int, BadRecord]] = []
    if conversations is not None:
        rows, bad = read_all(enumerate(conversations))
    asked = Asked(policy or Policy(), rows, bad, max_length, notes=notes, repair=repair)
    found = diagnosed(patient_of(template, tokenizer), asked)
    return found if notes else [finding for finding in found if finding.severity != "note"]


@dataclass(frozen=True)
class Asked:
    """What to look at. `rows` None: our probes; `seen` are the rows of the whole file a rule was met in."""

    policy: Policy
    rows: list[_Row] | None = None
    bad: Sequence[tuple[int, BadRecord]] = ()
    max_length: int | None = None
    seen: Mapping[str, Sequence[int]] | None = None
    of: int | None = None
    notes: bool = True
    repair: bool = True


def read_all(records: Iterable[tuple[int, Record | BadRecord]]) -> tuple[list[_Row], list[tuple[int, BadRecord]]]:
    """Read records; return the conversations, and the rows that could not be read."""
    rows: list[_Row] = []
    bad: list[tuple[int, BadRecord]] = []
    for number, record in records:
        try:
            if isinstance(record, BadRecord):
                raise record
            rows += _rows(number, record)
        except BadRecord as error:
            bad.append((number, error))
    return rows, bad


def diagnosed(patient: Patient, asked: Asked) -> list[Finding]:
    """Return the findings of all templates and the folder, the worst first."""
    found = [*patient.failed, *_unreadable(asked)]
    for number, (name, template) in enumerate(patient.templates.items()):
        label = name if number else ""
        if patient.folder is not None and not label:
            found += [_of_fact(fact) for fact in facts(patient.folder, _terminators(template, patient))]
        # What was seen of the whole file was seen through the template that serves.
        for finding in _of_one(template, patient, replace(asked, seen=None, of=None) if number else asked):
            found.append(replace(finding, template=label))
    if patient.folder is not None and not patient.templates:
        found += [_of_fact(fact) for fact in facts(patient.folder)]
    unique = {(one.rule, one.template, one.detail): one for one in found}
    return sorted(unique.values(), key=lambda one: SEVERITIES.index(one.severity))


def _terminators(template: ChatTemplate, patient: Patient) -> tuple[int, ...]:
    return template.terminators if patient.own_tokens and template.tokenizer is not None else ()


def _of_fact(fact: Fact) -> Finding:
    severity = "note" if fact.severity == "info" else fact.severity
    tokens = tuple(TokenAt(-1, -1, -1 if one.id is None else one.id, one.text) for one in fact.tokens)
    repair = None
    if fact.rule == "STOP_TOKEN_NOT_IN_GENERATION_CONFIG":
        told = f"also add stop_token_ids={fact.values['stop_token_ids']} to your server"
        repair = Repair(f"set eos_token_id to {fact.values['eos_token_id']} in {fact.values['file']}", None, told)
    return Finding(fact.rule, severity, fact.detail, tokens, repair=repair, values=fact.values)


def _unreadable(asked: Asked) -> Iterator[Finding]:
    if asked.bad:
        rows = tuple(asked.seen["RECORD_UNREADABLE"]) if asked.seen else tuple(row for row, _ in asked.bad)
        total = asked.of or len(asked.bad) + len({row.row for row in asked.rows or ()})
        first = asked.bad[0]
        detail = f"row {first[0]}: {first[1]}"
        yield Finding("RECORD_UNREADABLE", "error", f"{detail} ({len(rows):,} of {total:,} rows)", rows=rows, of=total)


def _of_one(template: ChatTemplate, patient: Patient, asked: Asked) -> Iterator[Finding]:
    """Yield the findings of one template."""
    plain = Case(-1, template, PLAIN, Policy(train_after_stop=asked.policy.train_after_stop))
    if plain.rendered is None and (plain.limited or not speaks(template)):
        yield Finding("TEMPLATE_FAILS", "error", plain.problem[1])
        return
    cases, hits = _looked(plain, asked)
    known: dict[str, Repair | None] = {}
    if not patient.own_tokens:
        hits = {rule: met for rule, met in hits.items() if rule not in _OF_TOKENS}
    limited = [case for case in cases if case.limited]
    if len(limited) >= LIMITED:
        hits = {"TEMPLATE_FAILS": [(case, Hit("TEMPLATE_FAILS", case.problem[1])) for case in limited]}
    pad = template.tokenizer.pad_token if template.tokenizer is not None else None
    if patient.own_tokens and patient.folder is None and template.tokenizer and pad == template.tokenizer.eos_token:
        yield from _pad_is_eos(template.tokenizer)
    found = [_finding(rule, hits[rule], asked, template) for rule in RULES if rule in hits]
    for finding in _in_order_of_harm(found):
        if asked.notes or finding.severity != "note":
            met = [case for case, _ in hits[finding.rule]]
            yield replace(finding, repair=repair_of(finding.rule, met, cases, known)) if asked.repair else finding
    yield from _too_long(cases, limit_of(patient, asked.max_length), asked) if patient.own_tokens else ()


def _in_order_of_harm(found: Sequence[Finding]) -> Iterator[Finding]:
    """Let what other programs may add step back, as a note, behind an error of the text itself."""
    broken = any(finding.severity == "error" for finding in found)
    for finding in found:
        added = finding.rule in ("DOUBLE_BOS", "DOUBLE_EOS") and "the tokenizer adds" in finding.detail
        yield replace(finding, severity="note") if broken and added else finding


def speaks(template: ChatTemplate) -> bool:
    """Tell whether a question and its answer render."""
    return rules.renders(template, replace(PLAIN, messages=PLAIN.messages[:2]))


def _pad_is_eos(tokenizer: AutoTokenizer) -> Iterator[Finding]:
    if tokenizer.pad_token is not None and tokenizer.pad_token_id is not None:
        detail = f"{tokenizer.pad_token!r} is pad_token and eos_token; a trainer that masks padding by id masks ends"
        token = TokenAt(-1, -1, tokenizer.pad_token_id, tokenizer.pad_token)
        yield Finding("PAD_IS_EOS", "warning", detail, (token,), repair=advice("PAD_IS_EOS"))


def _looked(plain: Case, asked: Asked) -> tuple[list[Case], dict[str, list[tuple[Case, Hit]]]]:
    """Return all cases and what was met in them; of the plain chat beside data only what it does to any."""
    cases = _cases(plain, asked)
    hits: dict[str, list[tuple[Case, Hit]]] = {}
    limited = 0
    for number, case in enumerate(cases):
        met = _hits(case)
        limited += case.limited
        for hit in met:
            if asked.rows is None or case is not plain or (hit.rule in ALWAYS and hit.rule not in hits):
                hits.setdefault(hit.rule, []).append((case, hit))
        if limited >= LIMITED:
            return cases[: number + 1], hits
    for case, hit in _pairs(cases):
        hits.setdefault(hit.rule, []).append((case, hit))
    return cases, hits


def _cases(plain: Case, asked: Asked) -> list[Case]:
    """Return the conversations to look at: the data and a plain chat, or all our probes."""
    template, policy = plain.template, asked.policy
    if asked.rows is not None:
        return [*(_case(row, template, policy) for row in asked.rows), plain]
    probes = [Case(-1, template, probe, policy) for probe in PROBES[1:]]
    return [plain, *probes, Case(-1, template, _NULLS, policy, said=NULL_CONTENT)]


def _pairs(cases: Sequence[Case]) -> Iterator[tuple[Case, Hit]]:
    """Compare the prompts of the two answers of a preference: they must be one and the same text."""
    for one, other in pairwise(cases):
        if one.row != other.row or one.row < 0 or one.laid is None or other.laid is None:
            continue
        if not one.laid.targets or not other.laid.targets:
            continue
        starts = one.laid.targets[-1].start, other.laid.targets[-1].start
        texts = one.laid.rendered.text[: starts[0]], other.laid.rendered.text[: starts[1]]
        if texts[0] != texts[1]:
            at = shared_length(*texts)
            detail = f"the prompts of chosen and rejected differ from character {at} on: {texts[0][at : at + 20]!r}"
            yield one, Hit("PREFERENCE_PROMPT_DIFFERS", f"{detail} and {texts[1][at : at + 20]!r}", ((at, at + 1),))


_NULLS = Conversation("null content", tuple(
    Message(one["role"], one["content"] or "", tool_calls=tuple(one.get("tool_calls", ()))) for one in NULL_CONTENT
))  # fmt: skip


def _hits(case: Case) -> list[Hit]:
    met = list(rules.cheap(case))
    met += list(thorough(case, met))
    for marker, spans in markers(case):
        ids = case.template.tokenizer.encode(marker) if case.template.tokenizer is not None else []
        detail = f"{marker!r} is no token of the tokenizer: it is cut into {len(ids)}"
        met.append(Hit("MARKER_NOT_SINGLE_TOKEN", detail, spans[:1]))
    return met


def _finding(rule: str, met: Sequence[tuple[Case, Hit]], asked: Asked, template: ChatTemplate) -> Finding:
    (case, hit), rows = met[0], tuple(dict.fromkeys(case.row for case, _ in met if case.row >= 0))
    if asked.seen is not None and rule in asked.seen:
        rows = tuple(asked.seen[rule])
    of = _looked_at(asked, rule)
    counted = f" ({_counted(len(rows), of, asked)})" if rows else f" (tried on: {case.conversation.id})"
    severity = _severity(rule, [case for case, _ in met], template)
    return Finding(rule, severity, hit.detail + counted, _evidence(case, hit), rows, of=of)


def _looked_at(asked: Asked, rule: str) -> int:
    """Return how many rows a rule was looked for in: all, or those looked at closely where a scan does not see it."""
    if asked.rows is None:
        return 0
    closely = len({row.row for row in asked.rows})
    return closely if asked.seen is None or rule not in asked.seen else asked.of or closely


def _counted(rows: int, of: int, asked: Asked) -> str:
    if asked.of is None or of == asked.of:
        return f"{rows:,} of {of:,} rows"
    share = f"all {rows:,}" if rows == of else f"{rows:,} of {of:,}"
    return f"{share} rows looked at closely, of {asked.of:,}"


def _severity(rule: str, met: Sequence[Case], template: ChatTemplate) -> str:
    """Return how bad it is: what data or a plain chat meet, everybody does; a special probe only who has such data."""
    names = {case.conversation.id for case in met}
    if any(case.row >= 0 for case in met) or names & {"plain", "one turn"}:
        return RULES[rule][0]
    severity = RULES[rule][1]
    if rule in _OF_TOOLS and severity == "note" and (template.uses("tools") or template.reads("tool_calls")):
        return "warning"
    if rule == "REASONING_DROPPED" and "inline think" in names:
        return "warning"
    return "note" if names <= _ODD else severity


def _evidence(case: Case, hit: Hit) -> tuple[TokenAt, ...]:
    """Return the tokens of a hit, at most `SHOWN`."""
    if case.rendered is None or case.template.tokenizer is None or not hit.spans:
        return ()
    encoded, text = case.encoded, case.rendered.text
    found = []
    for at in case.positions(hit.spans)[:SHOWN]:
        piece = text[int(encoded.starts[at]) : int(encoded.stops[at])]
        id = int(encoded.ids[at])
        found.append(TokenAt(case.row, at, id, piece or case.template.tokenizer.token(id)))
    return tuple(found)


def limit_of(patient: Patient, max_length: int | None) -> int | None:
    """Return how many tokens a row may have: as asked, else as the folder says; None where nobody says."""
    if max_length is not None or patient.folder is None:
        return max_length
    known = [n for n in (patient.folder.model_max_length, patient.folder.max_positions) if n is not None]
    return min(known, default=None)


def _too_long(cases: Sequence[Case], limit: int | None, asked: Asked) -> Iterator[Finding]:
    """Rows longer than a limit, and what cutting them there would lose."""
    if limit is None or asked.rows is None:
        return
    long = [case for case in cases if case.row >= 0 and case.rendered is not None and len(case.encoded.ids) > limit]
    rows = tuple(dict.fromkeys(case.row for case in long))
    if asked.seen is not None:
        rows = tuple(asked.seen.get("TOO_LONG", ()))
    if not rows:
        return
    targets = [(case, case.laid.targets) for case in long if case.laid is not None and case.laid.targets]
    stops = sum(_at(case, target.stop) > limit for case, found in targets for target in found)
    empty = sum(all(_at(case, target.start) >= limit for target in found) for case, found in targets)
    of = asked.of or len({row.row for row in asked.rows})
    longer = plural(len(rows), f"of {of:,} rows is longer", f"of {of:,} rows are longer")
    lose = plural(stops, "answer loses its stop token", "answers lose their stop token")
    keep = plural(empty, "row keeps no target", "rows keep no target")
    detail = (
        f"{longer} than {limit:,} tokens; of {len(long):,} looked at closely, cut there, {lose} and {keep};"
        " dropped, all is gone"
    )
    yield Finding("TOO_LONG", "warning", detail, rows=rows, of=of, values={"limit": limit, "stops": stops})


def _at(case: Case, character: int) -> int:
    return case.encoded.place(character)[0]


# ---------------------------------------------------------------- all repairs of a template, one upon another


def repaired(
    template: ChatTemplate | str | Path,
    tokenizer: AutoTokenizer | str | Path | None = None,
    conversations: Iterable[Record] | None = None,
    *,
    policy: Policy | None = None,
) -> tuple[str, tuple[str, ...]]:
    """Return a template with every proven repair of it applied, one upon another.

    Parameters
    ----------
    template, tokenizer, conversations, policy
        As for `diagnose`; of a folder the template that serves.

    Returns
    -------
    (source, proofs)
        The source as it is and no proofs where no repair is proven. Each repair is looked for anew in what those
        before it left, and is proven there. Of two that do not go together the first is taken; a proof that begins
        with ``left out`` names the other.

    Raises
    ------
    BadInput
        If there is no template, or none that parses.

    Examples
    --------
    >>> source, proofs = repaired("{% for m in messages %}<|im_start|>{{ m.content | trim }}<|im_end|>{% endfor %}")
    >>> "trim" in source, "{% generation %}" in source, proofs[0]
    (False, True, 'take out the trims: messages with blanks at their ends keep them in 2 conversations')
    """
    patient = patient_of(template, tokenizer)
    rows, bad = (None, []) if conversations is None else read_all(enumerate(conversations))
    asked = Asked(policy or Policy(), rows, bad)
    return repaired_of(patient, asked, diagnosed(patient, asked))


def repaired_of(patient: Patient, asked: Asked, findings: Iterable[Finding]) -> tuple[str, tuple[str, ...]]:
    """Return what `repaired` does, of a diagnosis already made."""
    if patient.main is None:
        raise BadInput(f"chat/diagnose: {patient.name} holds no template that parses, so none can be repaired")
    made, proofs, left, gone = patient.main, list[str](), list[str](), list[str]()
    wanted = [one for one in findings if not one.template and one.repair is not None and one.repair.template]
    cases = _proving(made, asked, wanted) if wanted else []
    for finding in wanted:
        step = _applied(finding.rule, made, cases, gone)
        if isinstance(step, str):
            assert finding.repair is not None
            left.append(f"left out: {finding.repair.what} ({finding.rule}): {step}")
        elif step is not None and step.template is not None:
            made = edited_as(made, step.template)
            proofs += [f"{step.what}: {proof}" for proof in step.proofs]
        gone += [finding.rule] if not isinstance(step, str) else []
    if proofs:
        tried = plural(len(cases), "conversation")
        proofs.append(f"all together: none of {', '.join(gone)} is met in {tried} any more")
    return made.source, (*proofs, *left)


def _proving(template: ChatTemplate, asked: Asked, wanted: Sequence[Finding]) -> list[Case]:
    """Return what all repairs are proven by: as `repair_of` does, with rows each finding was made in."""
    first = {row for finding in wanted for row in finding.rows[:SHOWN]}
    rows = [row for at, row in enumerate(asked.rows or ()) if at < PROVING or row.row in first]
    plain = Case(-1, template, PLAIN, asked.policy)
    data = _cases(plain, replace(asked, rows=rows))[:-1] if rows else []
    return [*data, *_cases(plain, replace(asked, rows=None))]


def _applied(rule: str, made: ChatTemplate, cases: Sequence[Case], gone: Sequence[str]) -> Repair | str | None:
    """Return the repair of what is left of a rule; None where nothing is; why there is none, in words."""
    now = [replace(case, template=made) for case in cases]
    met = [case for case in now if rule in _met(case)]
    if not met:
        return None
    found = repair_of(rule, met, now)
    if found is None or found.template is None:
        return "not proven together with what was changed before"
    after = edited_as(made, found.template)
    back = {rule, *gone} & {one for case in cases for one in _met(replace(case, template=after))}
    return f"would bring back {', '.join(sorted(back))}" if back else found


def _met(case: Case) -> set[str]:
    return {hit.rule for hit in _hits(case)}


# ---------------------------------------------------------------- every row of a file


class RowReport(NamedTuple):
    """One row of a file.

    Parameters
    ----------
    index : int
    rules : tuple of str
        What was met, the worst first.
    severity : str
        The worst; ``ok`` where nothing was met.
    tokens : int
    trained : int, tokens
    literal : int
        Control tokens its texts spell.
    limited : bool
        The template passed a limit; it may do so for every row.
    """

    index: int  # type: ignore[assignment]
    rules: tuple[str, ...]
    severity: str
    tokens: int
    trained: int
    literal: int
    limited: bool = False


def scan(
    template: ChatTemplate,
    records: Iterable[Record | BadRecord],
    policy: Policy | None = None,
    *,
    start: int = 0,
    spelled: bool = False,
) -> Iterator[RowReport]:
    """Look at one row after another, by one rendering each; a bad row is a report like any other.

    Parameters
    ----------
    template : ChatTemplate
        Without a tokenizer every marker it spells is taken for one token.
    records : iterable
        Read lazily.
    policy : Policy or None
    start : int
        Index of the first record.
    spelled : bool
        True: roles stay as the records spell them, as a trainer would hand them on that maps none. False: as they are
        written here, mapped.
    """
    if template.tokenizer is None:
        template = edited_as(template, template.source, stand_in(template.source))
    numbered = enumerate(records, start)
    while batch := list(islice(numbered, BATCH)):
        yield from scan_batch(template, batch, policy or Policy(), spelled)


def scan_batch(
    template: ChatTemplate, batch: Sequence[tuple[int, Record | BadRecord]], policy: Policy, spelled: bool = True
) -> Iterator[RowReport]:
    """Yield a report for each of some numbered records, encoded together."""
    cases: dict[int, list[Case]] = {}
    for number, record in batch:
        try:
            if isinstance(record, BadRecord):
                raise record
            cases[number] = [_case(row, template, policy, quick=True) for row in _rows(number, record, spelled)]
        except (BadRecord, TypeError, ValueError):
            cases[number] = []
    flat = [case for group in cases.values() for case in group if case.laid is not None]
    placed = template.encode_rows([case.laid.row() for case in flat if case.laid is not None])
    for case, row in zip(flat, placed, strict=True):
        case.place(row)
    for number, group in cases.items():
        yield _report(number, group)


def _report(number: int, group: Sequence[Case]) -> RowReport:
    if not group:
        return RowReport(number, ("RECORD_UNREADABLE",), "error", 0, 0, 0)
    met = {hit.rule for case in group for hit in rules.cheap(case)}
    order = {rule: (SEVERITIES.index(severities[0]), at) for at, (rule, severities) in enumerate(RULES.items())}
    named = tuple(sorted(met, key=lambda rule: order[rule]))
    masks = [case.mask for case in group]
    return RowReport(
        number, named, RULES[named[0]][0] if named else "ok",
        sum(case.size for case in group),
        sum(int(mask.sum()) for mask in masks if mask is not None and not isinstance(mask, Unproven)),
        sum(case.rendered.literal for case in group if case.rendered is not None),
        any(case.limited for case in group),
    )  # fmt: skip
