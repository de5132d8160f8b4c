"""The doctor: a model folder, its templates and a file of data examined; findings, symptoms, and what to do.

prep doctor MODEL_DIR_OR_TEMPLATE [--tokenizer T] [--data F]        exit status 1 if any finding is an error

✗ error   EOT_NOT_TRAINED: no token that stops generation stands behind 2 of 2 answers (312 of 48,120 rows)
            token '.' (row 7, position 33, id 19)
            repair: write '<|im_end|>' behind every answer (proven: …)
never stops:
  EOT_NOT_TRAINED: found, token '.'
  PAD_IS_EOS: ruled out
  -> retrain: 312 of 48,120 rows lack the stop token
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from prep_lib.chat.diagnose import (
    BATCH,
    CLOSELY,
    LIMITED,
    Asked,
    Record,
    RowReport,
    diagnose,
    diagnosed,
    limit_of,
    patient_of,
    read_all,
    scan,
    scan_batch,
    speaks,
)
from prep_lib.chat.mask import Policy
from prep_lib.chat.repair import Repair
from prep_lib.chat.symptoms import SEVERITIES, Cause, Finding, Symptom, TokenAt, symptoms
from prep_lib.chat.template import ChatTemplate
from prep_lib.chat.traits import traits
from prep_lib.errors import BadInput, BadRecord
from prep_lib.files import Span
from prep_lib.source import jsonl, parquet
from prep_lib.tokens.tokenizer import AutoTokenizer

__all__ = [
    "Cause", "Diagnosis", "Finding", "Repair", "RowReport", "Symptom", "TokenAt", "command", "diagnose", "examine",
    "records", "report", "scan", "symptoms", "traits",
]  # fmt: skip


@dataclass(frozen=True)
class Diagnosis:
    """What an examination found, as plain values.

    Parameters
    ----------
    name : str
    folder : mapping
        `ModelFolder.describe`; empty where no folder was given.
    traits : mapping
        Of the template that serves.
    findings : tuple of Finding
    symptoms : tuple of Symptom
    rows : int
        Rows of data looked at; 0 where none were given.
    looked : tuple of str
        ``template``, ``tokenizer``, ``folder``, ``data``: what was there to look at.
    """

    name: str
    folder: Mapping[str, Any]
    traits: Mapping[str, Any]
    findings: tuple[Finding, ...]
    symptoms: tuple[Symptom, ...]
    rows: int
    looked: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """1 if any finding is an error, else 0."""
        return int(any(finding.severity == "error" for finding in self.findings))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for a file or a page."""
        plain = {**vars(self), "findings": [_plain(one) for one in self.findings], "exit_status": self.exit_status}
        plain["symptoms"] = [dataclasses.asdict(symptom) for symptom in self.symptoms]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def _plain(finding: Finding) -> dict[str, Any]:
    plain = {name: getattr(finding, name) for name in ("rule", "severity", "detail", "of", "template")}
    plain["tokens"] = [dataclasses.asdict(token) for token in finding.tokens]
    plain["repair"] = None if finding.repair is None else dataclasses.asdict(finding.repair)
    return {**plain, "rows": list(finding.rows), "values": dict(finding.values)}


def examine(
    place: ChatTemplate | str | Path,
    tokenizer: AutoTokenizer | str | Path | None = None,
    data: str | Path | None = None,
    *,
    policy: Policy | None = None,
    limit: int = CLOSELY,
    max_length: int | None = None,
) -> Diagnosis:
    """Look at a model folder or a template, and at every row of a file.

    Parameters
    ----------
    place, tokenizer, policy, max_length
        As for `diagnose`.
    data : path or None
        JSON lines (plain, gz, zst), a JSON array, or Parquet.
    limit : int
        Rows looked at closely, the first ones and one of each kind that is found later; all are looked at once.

    Raises
    ------
    BadInput
        If there is nothing to look at, or the file cannot be read.
    """
    patient, policy = patient_of(place, tokenizer), policy or Policy()
    asked = Asked(policy, max_length=max_length)
    hopeless = patient.main is not None and not speaks(patient.main)
    if data is not None and patient.main is not None and not hopeless:
        asked = _with_data(patient.main, records(data), asked, limit, limit_of(patient, max_length))
    findings = tuple(diagnosed(patient, asked))
    given = {
        "template": bool(patient.templates or patient.failed), "tokenizer": patient.own_tokens,
        "folder": patient.folder is not None, "data": data is not None,
    }  # fmt: skip
    looked = tuple(name for name, there in given.items() if there)
    folder = patient.folder.describe() if patient.folder is not None else {}
    measured = traits(patient.main) if patient.main is not None and not hopeless else {}
    told = tuple(symptoms(findings, looked))
    return Diagnosis(patient.name, folder, measured, findings, told, asked.of or 0, looked)


def _with_data(
    template: ChatTemplate,
    numbered: Iterable[tuple[int, Record | BadRecord]],
    asked: Asked,
    limit: int,
    longest: int | None,
) -> Asked:
    """Scan all rows, and keep those to look at closely."""
    kept: dict[int, Record | BadRecord] = {}
    seen: dict[str, list[int]] = {}
    total, rest, size = 0, iter(numbered), LIMITED
    while batch := list(islice(rest, size)):
        reports = list(scan_batch(template, batch, asked.policy))
        for (number, record), report in zip(batch, reports, strict=True):
            if total < limit or any(rule not in seen for rule in report.rules):
                kept[number] = record
            for rule in (*report.rules, *["TOO_LONG"] * (longest is not None and report.tokens > longest)):
                seen.setdefault(rule, []).append(number)
            total += 1
        if sum(report.limited for report in reports) >= LIMITED:
            break
        size = BATCH
    rows, bad = read_all(kept.items())
    return replace(asked, rows=rows, bad=bad, seen=seen, of=total)


def records(path: str | Path) -> Iterator[tuple[int, dict[str, Any] | BadRecord]]:
    """Yield (row, record) of a file, rows counted from 0.

    Raises
    ------
    BadInput
        If it cannot be read.
    """
    place = Path(path).expanduser()
    if not place.is_file():
        raise BadInput(f"chat/doctor: no file at {path}; give JSON lines, a JSON array or Parquet")
    if place.suffix == ".parquet":
        found = (record for span in parquet.survey(place).spans for _, record in parquet.read_rows(span))
    elif place.suffix == ".json":
        found = (jsonl.load_or_reason(member) for _, member in jsonl.read_array(str(place)))
    else:
        found = (record for _, record in jsonl.read_records(Span(str(place))))
    yield from enumerate(found)


# ---------------------------------------------------------------- for a terminal


_SIGNS = {"error": "✗", "warning": "!", "note": "·"}


def report(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as lines of text."""
    lines = [f"{diagnosis.name}: {_sum(diagnosis)}"]
    for finding in diagnosis.findings:
        lines += _finding_lines(finding)
    told = [symptom for symptom in diagnosis.symptoms if symptom.found]
    for symptom in told:
        lines += ["", symptom.name.replace("_", " ") + ":"]
        lines += [f"  {_tick(cause)}" for cause in symptom.causes]
        lines += [f"  -> {advice}" for advice in symptom.advice]
    fine = [symptom.name.replace("_", " ") for symptom in diagnosis.symptoms if not symptom.found]
    if fine:
        lines += ["", f"no cause found for: {', '.join(fine)}"]
    return "\n".join(lines)


def _sum(diagnosis: Diagnosis) -> str:
    counts = [(name, sum(one.severity == name for one in diagnosis.findings)) for name in SEVERITIES]
    said = ", ".join(f"{count} {name}{'s' if count != 1 else ''}" for name, count in counts if count) or "nothing found"
    seen = f", {diagnosis.rows:,} rows of data" if diagnosis.rows else ""
    return f"{said} (looked at: {', '.join(diagnosis.looked)}{seen})"


def _finding_lines(finding: Finding) -> Iterator[str]:
    where = f" [{finding.template}]" if finding.template else ""
    yield f"{_SIGNS[finding.severity]} {finding.severity:7} {finding.rule}{where}: {_line(finding.detail)}"
    for token in finding.tokens[:3]:
        place = f"position {token.position}, " if token.position >= 0 else ""
        row = f"row {token.row}, " if token.row >= 0 else ""
        yield f"            token {token.text!r} ({row}{place}id {token.id})"
    if finding.repair is not None:
        how = f"proven: {'; '.join(finding.repair.proofs)}" if finding.repair.proofs else "not proven"
        yield f"            repair: {finding.repair.what}; {_line(finding.repair.advice)} ({how})"


def _line(text: str) -> str:
    return " ".join(text.split())


def _tick(cause: Cause) -> str:
    state = {True: "found", False: "ruled out", None: "not known"}[cause.found]
    token = f", token {cause.token.text!r}" if cause.token is not None else ""
    return f"{cause.rule}: {state}{token}" + (f" ({_line(cause.evidence)})" if cause.found is None else "")


def command(
    place: str | Path,
    tokenizer: str | Path | None = None,
    data: str | Path | None = None,
    *,
    out: Callable[[str], object] = print,
) -> int:
    """Examine, print the report, and return the exit status: what ``prep doctor`` does.

    Parameters
    ----------
    place : path
        A model folder, one of its files, or a template.
    tokenizer, data : path or None
    out : callable
        Takes the text.
    """
    diagnosis = examine(place, tokenizer, data)
    out(report(diagnosis))
    return diagnosis.exit_status
