"""What a diagnosis says: findings with tokens as evidence and repairs, and symptoms with each cause found or ruled out.

never_stops ─┬─ ✗ EOT_NOT_TRAINED        found      token 22 '.': no stop token behind it, in 312 of 48,120 rows
             ├─ ✓ PAD_IS_EOS             ruled out
             └─ ? NO_STOP_ID             not looked at: no model folder was given
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

#: From bad to harmless.
SEVERITIES = ("error", "warning", "note")


def plural(n: int, one: str, more: str = "") -> str:
    """Return a number and what is counted, with the verb that follows if there is one.

    Examples
    --------
    >>> plural(1, "token"), plural(1200, "token"), plural(1, "answer ends", "answers end")
    ('1 token', '1,200 tokens', '1 answer ends')
    """
    return f"{n:,} {one if n == 1 else more or one + 's'}"


@dataclass(frozen=True)
class TokenAt:
    """A token as evidence.

    Parameters
    ----------
    row : int
        The conversation it stands in, counted from 0; -1 for one of ours.
    position : int
        In the encoded row; -1: it stands in no row.
    id : int
        -1: no token has this spelling.
    text : str
    """

    row: int
    position: int
    id: int
    text: str


@dataclass(frozen=True)
class Repair:
    """A change that does away with a finding.

    Parameters
    ----------
    what : str
        The change in a few words.
    template : str or None
        The whole source, changed. None: the template stays as it is, and `advice` says what to do.
    advice : str
        What a person does with it.
    proofs : tuple of str
        What was run to prove it, and what came out; empty: nothing was proven, this is advice alone.
    """

    what: str
    template: str | None
    advice: str
    proofs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Something that goes wrong, or may.

    Parameters
    ----------
    rule : str
    severity : str
        One of `SEVERITIES`. ``error``: training or generation goes wrong; ``warning``: it goes wrong with some programs
        or data; ``note``: worth knowing.
    detail : str
        One line: what, where, how often.
    tokens : tuple of TokenAt
    rows : tuple of int
        The conversations it was found in, from 0; empty where it is a property of the template or the folder.
    repair : Repair or None
    of : int
        How many conversations were looked at; 0 where none were given.
    template : str
        Which of several named templates; empty: the one that serves.
    values : mapping
        The same as plain values.
    """

    rule: str
    severity: str
    detail: str
    tokens: tuple[TokenAt, ...] = ()
    rows: tuple[int, ...] = ()
    repair: Repair | None = None
    of: int = 0
    template: str = ""
    values: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class Cause:
    """A possible cause of a symptom.

    Parameters
    ----------
    rule : str
    found : bool or None
        False: ruled out. None: nobody could look, and `evidence` says what was missing.
    evidence : str
    token : TokenAt or None
    """

    rule: str
    found: bool | None
    evidence: str = ""
    token: TokenAt | None = None


@dataclass(frozen=True)
class Symptom:
    """A complaint about a trained model, its causes, and what to do about those found."""

    name: str
    causes: tuple[Cause, ...]
    advice: tuple[str, ...]

    @property
    def found(self) -> bool:
        """Whether any cause was found."""
        return any(cause.found for cause in self.causes)


#: Symptom -> its causes, the likeliest first, and what has to be looked at to know.
CAUSES: Mapping[str, Mapping[str, str]] = {
    "never_stops": {
        "EOT_NOT_TRAINED": "tokenizer", "NO_TERMINATOR_MID_TURN": "tokenizer", "MARKER_NOT_SINGLE_TOKEN": "tokenizer",
        "PAD_IS_EOS": "tokenizer", "PAD_IS_STOP": "folder", "STOP_TOKEN_NOT_IN_GENERATION_CONFIG": "folder",
        "NO_STOP_ID": "folder", "EOS_NOT_A_TOKEN": "folder", "EOS_DISAGREES": "folder", "TOKEN_UNREACHABLE": "folder",
        "ID_NOT_A_TOKEN": "folder", "TERMINATOR_IS_NOT_EOS": "folder", "TOO_LONG": "data",
    },
    "repeats_prompt": {
        "HEADER_IN_TRAINED_SPAN": "template", "PROMPT_IN_TRAINED_SPAN": "template",
        "GENERATION_PROMPT_MISMATCH": "template", "NO_GENERATION_PROMPT": "template", "EOT_NOT_TRAINED": "tokenizer",
        "NO_TERMINATOR_MID_TURN": "tokenizer", "DOUBLE_BOS": "tokenizer",
    },
    "ignores_system": {
        "SYSTEM_DROPPED_IN_TRAINING": "template", "SYSTEM_DROPPED": "template", "MID_SYSTEM_DROPPED": "template",
        "SYSTEM_REFUSED": "template", "DEFAULT_SYSTEM_INJECTED": "template",
    },
    "starts_with_blank": {
        "ANSWER_STARTS_WITH_BLANK": "template", "BORDER_TOKEN_MERGES": "tokenizer", "TOKENIZER_ADDS_BLANK": "folder",
        "GENERATION_PROMPT_MISMATCH": "template", "ADDED_TOKEN_STRIPS": "folder",
    },
    "loss_zero_or_nan": {
        "NO_TARGET": "data", "MESSAGE_DROPPED": "template", "TOOL_CALLS_DROPPED": "template",
        "BORDER_TOKEN_MERGES": "tokenizer", "ANSWER_NOT_IN_TAGS": "template", "NO_GENERATION_TAGS": "template",
        "TOO_LONG": "data", "TEMPLATE_FAILS": "template",
    },
}  # fmt: skip

#: What was looked at where a template and a tokenizer were given.
LOOKED = ("template", "tokenizer")

_MISSING = {
    "template": "no template was given",
    "tokenizer": "no tokenizer was given",
    "folder": "no model folder was given",
    "data": "no data were given",
}


def symptoms(findings: Sequence[Finding], looked: Collection[str] = LOOKED) -> list[Symptom]:
    """Return every symptom with its causes ticked.

    Parameters
    ----------
    findings : sequence of Finding
        Of a diagnosis, its notes included; a cause that is only a note is told as found too. Those of named
        templates that do not serve are left out.
    looked : collection of str
        What was looked at: ``template``, ``tokenizer``, ``folder``, ``data``. What nobody looked at is not ruled out.

    Examples
    --------
    >>> found = Finding("NO_TARGET", "warning", "no answer", rows=(3,), of=10)
    >>> last = symptoms([found], ["template", "data"])[-1]
    >>> last.name, [(cause.rule, cause.found) for cause in last.causes][:2]
    ('loss_zero_or_nan', [('NO_TARGET', True), ('MESSAGE_DROPPED', False)])
    >>> last.advice
    ('drop these rows: 1 of 10 rows has no token to train',)
    """
    first: dict[str, Finding] = {}
    serving = [finding for finding in findings if not finding.template]
    for finding in sorted(serving, key=lambda one: SEVERITIES.index(one.severity)):
        first.setdefault(finding.rule, finding)
    return [_symptom(name, causes, first, looked) for name, causes in CAUSES.items()]


def _symptom(name: str, causes: Mapping[str, str], found: Mapping[str, Finding], looked: Collection[str]) -> Symptom:
    ticked = tuple(_cause(rule, need, found.get(rule), looked) for rule, need in causes.items())
    advice = dict.fromkeys(line for rule in causes if rule in found for line in _advice(found[rule]))
    return Symptom(name, ticked, tuple(advice))


def _cause(rule: str, need: str, finding: Finding | None, looked: Collection[str]) -> Cause:
    if finding is not None:
        return Cause(rule, True, finding.detail, finding.tokens[0] if finding.tokens else None)
    return Cause(rule, False) if need in looked else Cause(rule, None, _MISSING[need])


def rows_of(finding: Finding, one: str, more: str) -> str:
    """Return how many rows do something, as a person says it.

    Examples
    --------
    >>> rows_of(Finding("X", "note", "", rows=(1, 2), of=48120), "lacks the stop token", "lack the stop token")
    '2 of 48,120 rows lack the stop token'
    """
    return plural(len(finding.rows), f"of {finding.of:,} rows {one}", f"of {finding.of:,} rows {more}")


def _advice(finding: Finding) -> Iterator[str]:
    """Yield what to do about one finding."""
    rows = finding.rows and finding.of
    if finding.rule == "STOP_TOKEN_NOT_IN_GENERATION_CONFIG":
        yield f"also add stop_token_ids={finding.values.get('stop_token_ids')} to your server"
        yield f"set eos_token_id to {finding.values.get('eos_token_id')} in {finding.values.get('file')}"
    elif finding.rule in ("EOT_NOT_TRAINED", "NO_TERMINATOR_MID_TURN"):
        lack = rows_of(finding, "lacks the stop token", "lack the stop token")
        yield f"retrain: {lack}" if rows else "retrain: with this template no answer of this kind ends in a stop token"
    elif finding.rule == "NO_TARGET" and rows:
        yield f"drop these rows: {rows_of(finding, 'has no token to train', 'have no token to train')}"
    elif finding.rule in ("PAD_IS_EOS", "PAD_IS_STOP"):
        yield "let the trainer mask padding by length, or name another pad token, and retrain"
    if finding.repair is not None:
        yield finding.repair.advice
