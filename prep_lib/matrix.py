"""A recipe over all combinations of some values, each a run of its own; what does not differ is done once.

-p 12_dedup.threshold=0.8,0.85  -p 15_pack.packing=concat,best_fit

    10_read ── 11_clean ─┬─ 12_dedup 0.8 ── … ─┬─ 15_pack concat       NAME-12.threshold-0.8-15.packing-concat
                         │                     └─ 15_pack best_fit     NAME-12.threshold-0.8-15.packing-best_fit
                         └─ 12_dedup 0.85 ─ … ─┬─ 15_pack concat       …
                                               └─ 15_pack best_fit
                                                                       NAME-matrix.html: differences first

A run takes over what an earlier one finished with the same key, as links: the disk holds it once.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from prep_lib import markup
from prep_lib.errors import BadParameter, PrepError
from prep_lib.files import write_whole
from prep_lib.locks import lock
from prep_lib.markup import Html, card, document, join, note, percent, table, tag
from prep_lib.press import run_recipe
from prep_lib.recipes import Recipe, notebook_of
from prep_lib.report import lang_of
from prep_lib.results import ledgers, record, states, summary
from prep_lib.safe import Mask
from prep_lib.words import say
from prep_lib.workspace import RUN_NAME, Run

#: What is varied, ``12_dedup.threshold``, and the value a combination has of it.
Varied = Mapping[str, str]


@dataclass(frozen=True)
class Cell:
    """One combination.

    Parameters
    ----------
    varied : mapping
        What tells it from the others.
    recipe : Recipe
    run : Run
    """

    varied: Varied
    recipe: Recipe
    run: Run


# ── which ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def combinations(given: Sequence[str], notebooks: Sequence[str]) -> list[tuple[Varied, list[str]]]:
    """Return what each combination varies, and the values to put over the recipe.

    Parameters
    ----------
    given : sequence of str
        ``12_dedup.threshold=0.8,0.85`` each; a value that holds a comma stands in quotes.
    notebooks : sequence of str
        Of the recipe.

    Raises
    ------
    BadParameter
        If nothing has several values, or one is no list.

    Examples
    --------
    >>> [dict(varied) for varied, _ in combinations(["12_dedup.threshold=0.8,0.85"], ["12_dedup"])]
    [{'12_dedup.threshold': '0.8'}, {'12_dedup.threshold': '0.85'}]
    """
    asked: dict[str, list[str]] = {}
    for text in given:
        target, found, value = text.partition("=")
        notebook, dot, name = target.partition(".")
        if not (found and dot and name):
            raise BadParameter(f"-p {text}: write notebook.name=value")
        asked[f"{notebook_of(notebook, notebooks, '-p')}.{name}"] = values(value, target)
    several = [target for target, found in asked.items() if len(found) > 1]
    if not several:
        raise BadParameter("--matrix: no -p has several values; write -p 12_dedup.threshold=0.8,0.85")
    out: list[tuple[Varied, list[str]]] = []
    for chosen in itertools.product(*asked.values()):
        one = dict(zip(asked, chosen, strict=True))
        out.append(
            ({target: one[target] for target in several}, [f"{target}={value}" for target, value in one.items()])
        )
    return out


def values(text: str, where: str = "") -> list[str]:
    """Return the values that stand in a text, apart by commas.

    Examples
    --------
    >>> values("0.8,0.85"), values("'a,b',c"), values("say 'a' and 'b'")
    (['0.8', '0.85'], ['a,b', 'c'], ["say 'a' and 'b'"])
    """
    if "," not in text:
        return [text]
    reader = shlex.shlex(text, posix=True)
    # A backslash is the user's, as in "\n", and a comma is all that parts.
    reader.whitespace, reader.whitespace_split, reader.commenters, reader.escape = ",", True, "", ""
    try:
        found = list(reader)
    except ValueError as error:
        raise BadParameter(f"-p {where}={text}: {error}; quote a value that holds a comma") from None
    # What stands in quotes is a value, whatever is in it; the reader passes over places that are empty.
    if not all(place.strip() for place in re.sub(r"'[^']*'|\"[^\"]*\"", "x", text).split(",")):
        raise BadParameter(f"-p {where}={text}: nothing stands between two commas, or at an end; write '' for no value")
    if len(set(found)) < len(found):
        raise BadParameter(f"-p {where}={text}: a value stands there twice")
    return found


def names(base: str, every: Sequence[Varied]) -> list[str]:
    """Return the name of each combination's run: readable, and one a run may have.

    Examples
    --------
    >>> names("pretrain", [{"12_dedup.threshold": "0.8"}, {"12_dedup.threshold": "0.85"}])
    ['pretrain-12.threshold-0.8', 'pretrain-12.threshold-0.85']
    """
    spelled = []
    for varied in every:
        parts = [base]
        for target, value in varied.items():
            notebook, _, word = target.partition(".")
            # With the notebook's number: another matrix, over a parameter of the same name elsewhere, is not this one.
            parts += [f"{notebook[:2]}.{word}", re.sub(r"[^\w.]+", "-", value).strip("-")]
        spelled.append("-".join(part for part in parts if part))
    seen = Counter(spelled)
    return [
        name if seen[name] == 1 and RUN_NAME.fullmatch(name) else f"{base[:60]}-{_short(varied)}"
        for name, varied in zip(spelled, every, strict=True)
    ]


def _short(varied: Varied) -> str:
    return hashlib.sha256(json.dumps(varied, sort_keys=True).encode()).hexdigest()[:10]


# ── run ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_matrix(
    cells: Sequence[Cell], *, rehash: bool = False, keep_old: bool = False, tell: Callable[[str], None] = print
) -> dict[str, str]:
    """Run every combination, each over what the ones before it finished.

    Returns
    -------
    dict
        Of each run that failed, by its name, in one line why. The others were run all the same.
    """
    failed: dict[str, str] = {}
    for number, cell in enumerate(cells, 1):
        tell(f"── {number} of {len(cells)}: {_told(cell.varied)}  ──▶  {cell.run.folder}")
        # Those behind it may be finished from another time.
        donors = [other.run for other in cells if other is not cell and other.run.folder.is_dir()]
        try:
            with lock(cell.run.folder):
                run_recipe(cell.recipe, cell.run, rehash=rehash, keep_old=keep_old, donors=donors, tell=tell)
        except PrepError as error:
            failed[cell.run.name] = str(error)
            tell(f"failed: {error}")
    return failed


def _told(varied: Varied) -> str:
    return " ".join(f"{target}={value}" for target, value in varied.items())


# ── beside each other ────────────────────────────────────────────────────────────────────────────────────────────────


def measures(cell: Cell) -> dict[str, object]:
    """Return what is worth comparing of a run: what came in, was kept, dropped and written, and the time."""
    found, counted = summary(cell.run), ledgers(cell.run)
    stored = [record(Run(cell.run.root, cell.run.name, step.notebook)) or {} for step in cell.recipe.steps]
    out: dict[str, object] = {
        "records": found.records, "kept": found.kept, "tokens": found.tokens, "efficiency": percent(found.efficiency),
    }  # fmt: skip
    for name, ledger in counted.items():
        for stage in ledger.stages:
            for flow in ("dropped", "failed"):
                whys = ledger.reasons(stage, flow).items()
                out |= {f"{name} {stage}: {why}": count for why, count in whys if why != "not_drawn"}
    # What was taken over cost another run its time.
    seconds = sum(said.get("seconds", 0.0) for said in stored if "shared" not in said)
    return out | {"time": markup.duration(seconds)}


def compared(
    cells: Sequence[Cell], failed: Collection[str] = ()
) -> tuple[list[str], dict[str, object], list[dict[str, object]]]:
    """Compare the runs that came to their end.

    Returns
    -------
    list of str, dict, list of dict
        The measures in which they differ; those in which they do not, with their value; the values of each run. One
        that failed has "–" everywhere: what stands in its folder may be left from another time.
    """
    found = [{} if cell.run.name in failed else measures(cell) for cell in cells]
    known = list(dict.fromkeys(name for one in found for name in one if name != "time"))
    told: list[dict[str, object]] = [
        {**dict.fromkeys(known, 0), **one} if one else {**dict.fromkeys([*known, "time"], "–")} for one in found
    ]
    ended = [one for one, its in zip(told, found, strict=True) if its]
    different = [name for name in known if len({str(one[name]) for one in ended}) > 1]
    return [*different, "time"], {name: ended[0][name] for name in known if name not in different}, told


def lines(cells: Sequence[Cell], failed: Mapping[str, str]) -> Iterator[str]:
    """Yield the combinations as a table for a terminal, and below it what is the same in all."""
    different, same, told = compared(cells, failed)
    rows = [[*cells[0].varied, *different]]
    for cell, one in zip(cells, told, strict=True):
        cut = " (failed)" if cell.run.name in failed else ""
        rows.append([*cell.varied.values(), *(_number(one[name]) for name in different[:-1]), f"{one['time']}{cut}"])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
    if same:
        yield "the same in all: " + ", ".join(f"{name} {_number(value)}" for name, value in same.items())


def _number(value: object) -> str:
    return "–" if value is None else markup.number(value) if isinstance(value, int | float) else str(value)


def page(cells: Sequence[Cell], failed: Mapping[str, str], target: Path) -> Path:
    """Write one page that shows the combinations beside each other, differences first.

    Parameters
    ----------
    target : Path
        In the folder of the runs, so that its links lead to their reports.
    """
    first = cells[0].recipe.steps
    lang = lang_of({"lang": next((step.values["lang"] for step in first if "lang" in step.values), "")})
    different, same, told = compared(cells, failed)
    mask, states_of = Mask(cells[0].run.root), [states(cell.run) for cell in cells]
    rows = []
    for cell, one, found in zip(cells, told, states_of, strict=True):
        ended = "failed" if cell.run.name in failed or any(kind == "failed" for kind, _ in found.values()) else "done"
        link = tag("a", say(f"report.state_{ended}", lang), href=f"{quote(cell.run.name)}/reports/index.html")
        rows.append([*cell.varied.values(), link, *(one[name] for name in different)])
    heads = [*cells[0].varied, say("matrix.report", lang), *(_said(name, lang) for name in different)]
    words = len(cells[0].varied) + 1
    common = [[_said(name, lang), value] for name, value in same.items()]
    title = say("matrix.title", lang, n=len(cells))
    body = [
        tag("h1", title),
        *(note("bad", tag("b", name), " ", mask(why)) for name, why in failed.items()),
        card(say("matrix.differs", lang), table(heads, rows, words=words, caption=say("matrix.differs", lang))),
        card(say("matrix.same", lang), table([say("matrix.measure", lang), say("matrix.value", lang)], common))
        if common
        else Html(),
        tag("p", say("matrix.shared", lang), cls="sub"),
    ]
    with write_whole(target, "w") as file:
        file.write(document(title, join(body), lang))
    return target


def _said(name: str, lang: str) -> str:
    return say(f"matrix.{name}", lang) if name in ("records", "kept", "tokens", "efficiency", "time") else name
