"""The doctor: a model folder, its templates and a file of data examined; findings, symptoms, and what to do.

prep doctor MODEL [--tokenizer T] [--data F] [--json] [--write DIR [--force]]

✗ error   EOT_NOT_TRAINED: no token that stops generation stands behind 2 of 2 answers (312 of 48,120 rows)
            token '.' (row 7, position 33, id 19)
            repair: write '<|im_end|>' behind every answer (proven: …)
never stops:
  EOT_NOT_TRAINED: found, token '.'
  PAD_IS_EOS: ruled out
  -> retrain: 312 of 48,120 rows lack the stop token

0: no finding is an error    1: one is    2: asked wrongly, or there is nothing that could be looked at
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from prep_lib.chat.diagnose import (
    BATCH,
    CLOSELY,
    LIMITED,
    Asked,
    Patient,
    Record,
    RowReport,
    diagnosed,
    limit_of,
    patient_of,
    read_all,
    repaired_of,
    scan_batch,
    speaks,
)
from prep_lib.chat.mask import Policy
from prep_lib.chat.probes import traits
from prep_lib.chat.rules import RULES
from prep_lib.chat.symptoms import SEVERITIES, Cause, Finding, Repair, Symptom, plural, symptoms
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import BadInput, BadParameter, BadRecord
from prep_lib.files import write_whole
from prep_lib.source.hub import Row, open_source, parsed
from prep_lib.tokens.tokenizer import AutoTokenizer

#: What ``--write`` writes.
TEMPLATE, FINDINGS = "template.jinja", "findings.json"
#: Rows of a finding that are named, of all that are counted.
NAMED = 100


#: Where rows come from: a place, or records that are at hand.
Data = str | Path | Sequence[Mapping[str, Any]]


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
    counted : mapping
        What was found in all rows of the data: ``of``, ``looked_at``, ``clean``, ``tokens``, ``trained``, ``found``;
        empty where none were given.
    looked : tuple of str
        ``template``, ``tokenizer``, ``folder``, ``data``: what was there to look at.
    choices : mapping
        What was asked for, as the workbench saves its choices.
    template_sha256 : str or None
        Of the template that serves.
    """

    name: str
    folder: Mapping[str, Any]
    traits: Mapping[str, Any]
    findings: tuple[Finding, ...]
    symptoms: tuple[Symptom, ...]
    counted: Mapping[str, Any]
    looked: tuple[str, ...]
    choices: Mapping[str, Any]
    template_sha256: str | None

    @property
    def rows(self) -> int:
        """Rows of data looked at; 0 where none were given."""
        return int(self.counted.get("looked_at", 0))

    @property
    def exit_status(self) -> int:
        """1 if any finding is an error, else 0."""
        return int(any(finding.severity == "error" for finding in self.findings))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values; what the workbench saves too has the same keys here."""
        return {
            "choices": dict(self.choices), "template_sha256": self.template_sha256,
            "findings": [_plain(one) for one in self.findings], "rows": dict(self.counted) or None,
            "symptoms": [dataclasses.asdict(symptom) for symptom in self.symptoms], "name": self.name,
            "looked": list(self.looked), "folder": dict(self.folder), "traits": dict(self.traits),
            "exit_status": self.exit_status,
        }  # fmt: skip


def _plain(finding: Finding) -> dict[str, Any]:
    plain = {name: getattr(finding, name) for name in ("rule", "severity", "detail")}
    plain["tokens"] = [dataclasses.asdict(token) for token in finding.tokens]
    plain["rows"] = list(finding.rows)
    plain["repair"] = None if finding.repair is None else dataclasses.asdict(finding.repair)
    return {**plain, "of": finding.of, "template": finding.template, "values": dict(finding.values)}


def examine(
    place: ChatTemplate | str | Path,
    tokenizer: AutoTokenizer | str | Path | None = None,
    data: Data | None = None,
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
    data : path, sequence of mappings, or None
        Records, or whatever `open_source` opens: JSON lines, a JSON array, Parquet, CSV, a pattern, a data set.
        They may have any form `conversation.read` knows.
    limit : int
        Rows looked at closely, the first ones and one of each kind that is found later; all are looked at once.

    Raises
    ------
    BadInput
        If there is nothing to look at, or the file cannot be read.
    """
    return _examined(place, tokenizer, data, Asked(policy or Policy(), max_length=max_length), limit)[0]


def _examined(
    place: ChatTemplate | str | Path,
    tokenizer: AutoTokenizer | str | Path | None,
    data: Data | None,
    asked: Asked,
    limit: int = CLOSELY,
) -> tuple[Diagnosis, Patient, Asked]:
    patient, counts = patient_of(place, tokenizer), Counts()
    main, choices = patient.main, _choices(patient.name if isinstance(place, ChatTemplate) else str(place), asked)
    hopeless = main is not None and not speaks(main)
    if data is not None:
        rows = _rows(data)
        if main is not None and not hopeless:
            asked = _with_data(main, rows, asked, limit, limit_of(patient, asked.max_length), counts)
    findings = tuple(diagnosed(patient, asked))
    given = {
        "template": bool(patient.templates or patient.failed), "tokenizer": patient.own_tokens,
        "folder": patient.folder is not None, "data": data is not None,
    }  # fmt: skip
    looked = tuple(name for name, there in given.items() if there)
    made = Diagnosis(
        patient.name,
        patient.folder.describe() if patient.folder is not None else {},
        traits(main) if main is not None and not hopeless else {},
        findings,
        tuple(symptoms(findings, looked)),
        counts.told(),
        looked,
        choices,
        main.sha256 if main is not None else None,
    )
    return made, patient, asked


def _rows(data: Data) -> Iterator[Row]:
    """Open a place, or number records that are at hand."""
    if isinstance(data, str | Path):
        return open_source(data).read(0)
    return (("", str(at), record) for at, record in enumerate(data))


def _choices(name: str, asked: Asked) -> dict[str, Any]:
    return {"template": name, **dataclasses.asdict(asked.policy), "max_length": asked.max_length or 0}


@dataclass
class Counts:
    """What a scan adds up over the rows of a file."""

    looked_at: int = 0
    clean: int = 0
    tokens: int = 0
    trained: int = 0
    stopped: bool = False
    rows: dict[str, list[int]] = field(default_factory=dict)
    first: dict[str, list[str]] = field(default_factory=dict)

    def add(self, report: RowReport, rules: Sequence[str], place: str) -> None:
        """Add one row: what was found in it, and its name."""
        self.looked_at += 1
        self.tokens += report.tokens
        self.trained += report.trained
        self.clean += not rules
        for rule in rules:
            self.rows.setdefault(rule, []).append(report.index)
            if len(self.rows[rule]) <= NAMED:
                self.first.setdefault(rule, []).append(place)

    def told(self) -> dict[str, Any]:
        """Return the sums as the workbench saves them; nothing where no row was looked at."""
        if not self.looked_at:
            return {}
        order = {rule: (SEVERITIES.index(severities[0]), at) for at, (rule, severities) in enumerate(RULES.items())}
        found = [
            {"rule": rule, "severity": RULES[rule][0], "rows": len(rows), "first": self.first[rule]}
            for rule, rows in sorted(self.rows.items(), key=lambda item: order[item[0]])
        ]
        plain = {name: getattr(self, name) for name in ("looked_at", "clean", "tokens", "trained")}
        return {"of": None if self.stopped else self.looked_at, **plain, "found": found}


def _with_data(
    template: ChatTemplate,
    given: Iterator[Row],
    asked: Asked,
    limit: int,
    longest: int | None,
    counts: Counts,
) -> Asked:
    """Scan all rows, and keep those to look at closely."""
    kept: dict[int, Record | BadRecord] = {}
    size, limited = LIMITED, 0
    while limited < LIMITED and (batch := list(islice(given, size))):
        numbered = [(at, parsed(raw)) for at, (_, _, raw) in enumerate(batch, counts.looked_at)]
        reports = list(scan_batch(template, numbered, asked.policy))
        for (_, place, _), (number, record), report in zip(batch, numbered, reports, strict=True):
            if counts.looked_at < limit or any(rule not in counts.rows for rule in report.rules):
                kept[number] = record
            long = longest is not None and report.tokens > longest
            counts.add(report, (*report.rules, *["TOO_LONG"] * long), place)
        limited = sum(report.limited for report in reports)
        size = BATCH
    counts.stopped = limited >= LIMITED
    rows, bad = read_all(kept.items())
    return replace(asked, rows=rows, bad=bad, seen=counts.rows, of=counts.looked_at)


# ---------------------------------------------------------------- for a terminal


_SIGNS = {"error": "✗", "warning": "!", "note": "·"}


def report(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as lines of text."""
    lines, told_in = [f"{diagnosis.name}: {_sum(diagnosis)}"], dict[Repair, str]()
    for finding in diagnosis.findings:
        lines += _finding_lines(finding)
        if finding.repair is not None:
            lines.append(f"            repair: {_repair_line(finding.repair, told_in.get(finding.repair, ''))}")
            told_in.setdefault(finding.repair, finding.rule)
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
    said = ", ".join(plural(count, name) for name, count in counts if count) or "nothing found"
    seen = f", {plural(diagnosis.rows, 'row')} of data" if diagnosis.rows else ""
    return f"{said} (looked at: {', '.join(diagnosis.looked)}{seen})"


def _finding_lines(finding: Finding) -> Iterator[str]:
    where = f" [{finding.template}]" if finding.template else ""
    yield f"{_SIGNS[finding.severity]} {finding.severity:7} {finding.rule}{where}: {_line(finding.detail)}"
    for token in finding.tokens[:3]:
        place = f"position {token.position}, " if token.position >= 0 else ""
        row = f"row {token.row}, " if token.row >= 0 else ""
        yield f"            token {token.text!r} ({row}{place}id {token.id})"


def _repair_line(repair: Repair, told_in: str) -> str:
    if told_in:
        return f"{repair.what}, as for {told_in}"
    how = f"proven: {'; '.join(repair.proofs)}" if repair.proofs else "not proven"
    return f"{repair.what}; {_line(repair.advice)} ({how})"


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
    write: str | Path | None = None,
    force: bool = False,
    as_json: bool = False,
    out: Callable[[str], object] = print,
    say: Callable[[str], object] = lambda line: print(line, file=sys.stderr),
) -> int:
    """Examine, print the report, and return the exit status: what ``prep doctor`` does.

    Parameters
    ----------
    place : path
        A model folder, one of its files, or a template.
    tokenizer, data : path or None
    write : path or None
        A folder: the template with its repairs and the findings are written there.
    force : bool
        True: files that are there already are overwritten.
    as_json : bool
        True: `Diagnosis.as_dict` is printed in place of the report.
    out, say : callable
        Take the text, and what else is to be said where the text is JSON.

    Raises
    ------
    BadParameter
        If nothing could be looked at, or a file to be written is there already.
    """
    _check(write, force)
    try:
        diagnosis, patient, asked = _examined(place, tokenizer, data, Asked(Policy()))
    except BadInput as error:  # 1 says that something was found, so this has to be told apart
        raise BadParameter(str(error)) from None
    told, lines = diagnosis.as_dict(), list[str]()
    if write is not None:
        told, lines = _written(Path(write), told, patient, asked, diagnosis)
    elif not as_json and any(one.repair is not None and one.repair.template for one in diagnosis.findings):
        lines = ["", "--write DIR writes the template with its proven repairs, and the findings"]
    if not as_json:
        out("\n".join([report(diagnosis), *lines]))
        return diagnosis.exit_status
    out(json.dumps(told, ensure_ascii=False, indent=1, default=str))
    if lines:
        say("\n".join(lines[1:]))
    return diagnosis.exit_status


def _check(write: str | Path | None, force: bool) -> None:
    if write is None:
        if force:
            raise BadParameter("chat/doctor: --force is for --write DIR; give both or neither")
        return
    if Path(write).exists() and not Path(write).is_dir():
        raise BadParameter(f"chat/doctor: {write} is a file; give a folder to write to")
    there = [path for path in (Path(write, TEMPLATE), Path(write, FINDINGS)) if path.exists()]
    if there and not force:
        raise BadParameter(f"chat/doctor: {there[0]} is there already; give another folder, or --force to overwrite it")


def _written(
    place: Path, told: dict[str, Any], patient: Patient, asked: Asked, diagnosis: Diagnosis
) -> tuple[dict[str, Any], list[str]]:
    """Write both files; return what is told then, and the lines that say so."""
    lines = []
    if patient.main is not None:
        source, proofs = repaired_of(patient, asked, diagnosis.findings)
        changed = source != patient.main.source
        told = {**told, "repaired": {"changed": changed, "proofs": list(proofs)}}
        with write_whole(place / TEMPLATE, "w") as file:
            file.write(source)
        how = "with its proven repairs" if changed else "as it is: no repair of it is proven"
        lines = [f"written: {place / TEMPLATE}, the template {how}", *(f"  {_line(proof)}" for proof in proofs)]
    with write_whole(place / FINDINGS, "w") as file:
        file.write(json.dumps(told, ensure_ascii=False, indent=1, default=str) + "\n")
    return told, ["", *lines, f"written: {place / FINDINGS}"]
