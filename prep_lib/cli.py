"""prep init | lab | run | status | attach | stop | report | compare | share | publish | verify | doctor | convert | …

prep init DIR [FILE…]      a workspace: copies of the notebooks, recipes, my_funcs.py; and a recipe for these files
prep lab [DIR]             JupyterLab in it
prep run RECIPE            its notebooks in order, headless  ──▶  runs/NAME/reports/index.html;  --detach: and go home
    --from 12 --to 15      a part of them;  --sample 1000: of a sample;  --matrix -p 12.threshold=0.8,0.85: each value
prep status [RUN]          how far it is, while it runs, after it was killed, and when it is done
prep attach | stop [RUN]   what happens in it from now on; its end, as Ctrl-C ends it
prep report [RUN]          the HTML again, from the executed notebooks
prep compare RUN RUN_B     what differs between two runs, and a page of it
prep share RUN [RUN_B]     one HTML file to send, and a page of PDF: --samples none | masked | full
prep publish RUN URL       what a run wrote, sent to s3://bucket/folder or another store; again: what is new
prep verify DIR            shards against their manifest, here or in a store
prep doctor MODEL          what is wrong with a model folder's template and tokenizer, and what to do
prep convert DIR --to T    shards as the files trl, axolotl, llamafactory, megatron or datatrove opens, or as Parquet
prep subsample             rows drawn from npz files: --input-dir --output-dir --num-samples N --eval-samples N
prep shuffle-npz           existing npz files, made even and shuffled: --input-dir --output-dir --shard-size --seed
prep trace DIR             --shard S --row R [--position P]: where a token comes from;  --document ID: where it went

0 ok    1 failed, in one line    2 asked wrongly, nothing was done    130 interrupted
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prep_lib.errors import BadInput, BadParameter, PrepError

if TYPE_CHECKING:
    # Everything else is imported by the command that needs it: `prep --help` must not wait for a tokenizer.
    from prep_lib.comparison import Comparison
    from prep_lib.recipes import Recipe
    from prep_lib.workspace import Run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str or None
        None: those of this process.
    """
    parser = _parser()
    asked, more = parser.parse_known_args(arguments)
    if more and asked.command not in (_lab, _shuffle_npz):
        parser.error(_unknown(more, asked.options))
    asked.more, asked.words = more, list(sys.argv[1:] if arguments is None else arguments)
    try:
        return int(asked.command(asked) or 0)
    except BadParameter as error:
        print(f"prep {asked.name_of_command}: {error}", file=sys.stderr)
        return 2
    except (PrepError, OSError) as error:
        print(f"prep {asked.name_of_command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # A cell that was waited for ends after us, now and then, and would leave its own farewell of ten lines.
        logging.getLogger("asyncio").disabled = True
        print("interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="prep", description="Prepare the data a language model is trained on.")
    commands = parser.add_subparsers(dest="name_of_command", required=True, metavar="COMMAND")

    def command(name: str, call: Callable[[argparse.Namespace], int | None], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(command=call, options=made)
        return made

    init = command("init", _init, "make a workspace, or bring one up to date; write a recipe for files of yours")
    init.add_argument("dir", metavar="DIR")
    init.add_argument("files", metavar="FILE", nargs="*", help="data, a tokenizer, a model: files, folders, patterns")
    lab = command("lab", _lab, "open JupyterLab in a workspace; options of JupyterLab are handed on")
    lab.add_argument("dir", metavar="DIR", nargs="?")
    _run_options(command("run", _run, "run a recipe's notebooks and press their reports"))
    for name, call, text in (
        ("status", _status, "say how far a run is, and how it ended"),
        ("attach", _attach, "show what happens in a run until it ends; Ctrl-C leaves it alone"),
        ("stop", _stop, "end a run of this machine as Ctrl-C would; finished work is kept"),
        ("report", _report, "make the HTML reports of a run again"),
    ):
        made = command(name, call, text)
        made.add_argument("run", metavar="RUN", nargs="?", default="", help="the latest if not given")
        if call is _status:
            made.add_argument("--json", action="store_true", help="as JSON, for programs")
            made.add_argument("--line", action="store_true", help="as one line, for a chat")
    _pair_options(command("compare", _compare, "say what differs between two runs, and make a page of it"), "RUN_B")
    _share_options(command("share", _share, "make one HTML file of a run, and a page of PDF, to send"))
    publish = command("publish", _publish, "send what a run wrote to a store, what calls it complete last")
    publish.add_argument("run", metavar="RUN")
    publish.add_argument("url", metavar="URL", help="s3://bucket/folder, or any other that fsspec opens")
    command("verify", _verify, "check shards against their manifest").add_argument("dir", metavar="DIR")
    doctor = command("doctor", _doctor, "say what is wrong with a chat template and its tokenizer, and what to do")
    doctor.add_argument("place", metavar="MODEL", help="a model folder, a .jinja file, or a hub name in the cache")
    doctor.add_argument("--tokenizer", metavar="T", help="a file, folder or hub name; the model's own if not given")
    doctor.add_argument(
        "--data", metavar="F", help="records to look at too: JSONL, JSON, CSV, Parquet, in any usual form"
    )
    doctor.add_argument("--json", action="store_true", help="print everything as JSON in place of the report")
    doctor.add_argument(
        "--write", metavar="DIR", help="write template.jinja with its proven repairs, and findings.json"
    )
    doctor.add_argument("--force", action="store_true", help="overwrite what is in that folder")
    convert = command("convert", _convert, "write shards as the files another program opens by itself")
    convert.add_argument("dir", metavar="DIR", help="of shards, with their manifest")
    programs = "trl, axolotl or llamafactory for sft and dpo rows; megatron, datatrove or parquet for plain ids"
    convert.add_argument("--to", required=True, metavar="PROGRAM", help=programs)
    convert.add_argument("--out", metavar="DIR", help="beside the shards, with the program's name, if not given")
    _trace_options(
        command("trace", _trace, "follow a token back to its source line, or a document to the step that reads it")
    )
    _draw_options(
        command("subsample", _subsample, "draw rows from npz files, exactly as many as asked, train and eval apart")
    )
    # Its flags are the specification's, and stand where `python -m prep_lib.shuffle.shuffle_npz` finds them too.
    mix = commands.add_parser("shuffle-npz", help="make existing npz files even and shuffled", add_help=False)
    mix.set_defaults(command=_shuffle_npz)
    # Called by git, not by people: no help line.
    commands.add_parser("strip-output").set_defaults(command=_strip_output)
    return parser


def _unknown(words: Sequence[str], options: argparse.ArgumentParser) -> str:
    """Say which words nobody asked for, and the option that is nearest to the first."""
    known = re.findall(r"--[\w-]+", options.format_help())
    near = difflib.get_close_matches(words[0].partition("=")[0], known, n=1)
    return f"unknown: {' '.join(words)}" + (f"; did you mean {near[0]}?" if near else "")


def _trace_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", metavar="DIR", help="of shards, with their manifest")
    parser.add_argument("--shard", type=int, metavar="S", help="which, in the order of the manifest, from 0")
    parser.add_argument("--row", type=int, metavar="R", help="in the shard, from 0")
    parser.add_argument("--position", type=int, metavar="P", help="in the row, from 0; the whole row if not given")
    parser.add_argument("--document", metavar="ID", help="web.jsonl#L12, web.parquet[11], or the record's own id")
    parser.add_argument("--inputs", nargs="+", default=[], metavar="PATH", help="where the input files are now")
    parser.add_argument("--tokenizer", metavar="T", help="for the text of a token; the run's own if not given")
    parser.add_argument(
        "--batch-size", type=int, metavar="B", help="of one rank: says at which step a document is read"
    )
    parser.add_argument("--epoch", type=int, default=0, metavar="E", help="from 0")
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="of the loader")
    parser.add_argument("--world-size", type=int, default=1, metavar="W", help="ranks")


def _pair_options(parser: argparse.ArgumentParser, other: str) -> None:
    parser.add_argument("run", metavar="RUN", help="a name, or the folder of a run of another workspace")
    more: dict[str, Any] = {"nargs": "?", "default": ""} if other.startswith("[") else {}
    parser.add_argument("other", metavar=other.strip("[]"), help="the run to compare with, by name or folder", **more)
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="of the documents shown as examples")
    parser.add_argument("--lang", default="", metavar="L", help="en or zh; the run's if not given")


def _share_options(parser: argparse.ArgumentParser) -> None:
    _pair_options(parser, "[RUN_B]")
    words = "none: numbers alone; masked (the default): texts as shapes; full: texts as the pages show them"
    parser.add_argument("--samples", default="masked", metavar="HOW", help=words)
    parser.add_argument("--names", action="store_true", help="show names of files, sources, runs and documents")
    parser.add_argument("--out", metavar="F", help="the HTML file; reports/share-HOW.html of the run if not given")


def _draw_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--input-dir", required=True, metavar="DIR", help="of npz files, or with train/ in it")
    parser.add_argument("--output-dir", required=True, metavar="DIR", help="gets train/ and eval/")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--num-samples", type=int, metavar="N", help="rows for train; all that eval leaves if none")
    amount.add_argument("--fraction", type=float, metavar="F", help="share of the rows that eval leaves, for train")
    parser.add_argument("--eval-samples", type=int, default=0, metavar="N", help="rows for eval")
    parser.add_argument("--stratify-by", metavar="FIELD", help="a field whose values keep their shares")
    parser.add_argument("--shard-size", type=int, default=1_000_000, metavar="N", help="rows of a shard")
    parser.add_argument("--no-shuffle", action="store_false", dest="shuffle", help="keep the order of the input")
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="of the drawing and the order")
    parser.add_argument("--workers", type=int, metavar="N", help="processes; this machine's share if not given")
    parser.add_argument("--memory-budget", default="2GiB", metavar="BYTES", help="over all workers")


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="a file, or a name out of notebooks/recipes")
    parser.add_argument("-p", dest="given", action="append", default=[], metavar="notebook.name=value")
    parser.add_argument(
        "--workers", type=int, default=0, metavar="N", help="processes; this machine's share if not given"
    )
    parser.add_argument("--engine", default="", metavar="E", help="who works: processes, inline, dask or ray")
    parser.add_argument("--address", default="", metavar="A", help="of the cluster: tcp://HOST:8786 for dask")
    parser.add_argument("--dry-run", action="store_true", help="try 2,000 rows and say what everything would take")
    parser.add_argument("--name", default="", metavar="NAME", help="of the run; the recipe's if not given")
    parser.add_argument("--detach", action="store_true", help="start it, and let it go on when this terminal is closed")
    parser.add_argument("--on-done", default="", metavar="CMD", help="for the shell once it ended, well or not: "
                        "with PREP_RUN, PREP_STATE, PREP_SUMMARY and PREP_REPORT in its environment")  # fmt: skip
    parser.add_argument("--why", action="store_true", help="say which notebooks would run, and why, and run none")
    parser.add_argument("--from", dest="first", default="", metavar="NB", help="begin with this notebook: 12, or dedup")
    parser.add_argument("--to", dest="last", default="", metavar="NB", help="end with this notebook")
    parser.add_argument("--only", default="", metavar="NB[,NB]", help="these notebooks, over what stands in the run")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="of about N records, in a run of its own")
    parser.add_argument(
        "--matrix", action="store_true", help="all combinations of the values that -p gives apart by commas"
    )
    parser.add_argument("--rehash", action="store_true", help="read inputs again even if they look unchanged")
    parser.add_argument("--keep-old", action="store_true", help="keep what is done even if our code has changed since")


# ── init, lab, verify, doctor, convert, strip-output ────────────────────────────────────────────────────────────────


def _init(asked: argparse.Namespace) -> int:
    """Make a workspace, and a recipe for each kind of data named; 1 if nothing that was named could be read."""
    from prep_lib.workspace import init

    print(*init(asked.dir), sep="\n")
    if not asked.files:
        print(f"next: prep lab {asked.dir}")
        return 0
    from prep_lib.draft import write_recipes

    return write_recipes(asked.dir, asked.files)


def _lab(asked: argparse.Namespace) -> int:
    """Open a workspace, making it if need be; the originals are never opened."""
    from prep_lib.lab import way
    from prep_lib.workspace import CHECKOUT, MARKER, find_root, init

    folder = Path(asked.dir).expanduser().resolve() if asked.dir else find_root()
    if folder == CHECKOUT:
        folder = CHECKOUT / "workspace"
    if not asked.dir and folder != CHECKOUT / "workspace" and not (folder / MARKER).is_file():
        raise BadParameter(f"{folder} is no workspace; name one: prep lab DIR")
    print(*init(folder), sep="\n")
    found = way(folder, asked.more)
    print(*found.lines, sep="\n", flush=True)
    if not found.command:
        return 0
    return subprocess.run(found.command, env={**os.environ, **(found.environment or {})}, check=False).returncode


def _verify(asked: argparse.Namespace) -> int:
    """Check every folder below that has a manifest."""
    from prep_lib.remote import place
    from prep_lib.shards.verify import verify

    home = place(asked.dir)
    if not home.is_dir():
        raise BadParameter(f"no folder {asked.dir}")
    folders = sorted(path.parent for path in home.rglob("manifest.json")) or [home]
    bad = 0
    for folder in folders:
        findings = verify(folder)
        for found in findings:
            print(f"{found.severity}: {folder.name}/{found.file}: {found.what}")
        bad += sum(found.severity == "error" for found in findings)
        count = f"{len(findings)} finding{'s' if len(findings) > 1 else ''}"
        print(f"{folder}: {count if findings else 'ok'}")
    return 1 if bad else 0


def _doctor(asked: argparse.Namespace) -> int:
    """Print findings and symptoms; 1 if one of them is an error, 2 if nothing could be looked at."""
    from prep_lib.chat.doctor import command

    return command(asked.place, asked.tokenizer, asked.data, write=asked.write, force=asked.force, as_json=asked.json)


def _convert(asked: argparse.Namespace) -> None:
    from prep_lib.remote import absolute, place
    from prep_lib.shards.interop import convert
    from prep_lib.shards.megatron import blend_line

    out = asked.out or f"{absolute(asked.dir)}-{asked.to}"
    told = convert(asked.dir, asked.to, out)
    totals = told["totals"]
    shown = [f"{totals[name]:,} {name}" for name in ("rows", "documents", "tokens", "targets") if name in totals]
    print(f"{out}: {', '.join(shown)}")
    if totals.get("lost"):
        print(f"{totals['lost']:,} tokens were dropped with the last pack: a document ends before its end")
    if "blend" in told:
        print(blend_line(told, str(absolute(out))))
    print(f"next: python {place(out) / 'read_me.py'}, and README.md for the program's settings")


def _trace(asked: argparse.Namespace) -> None:
    from prep_lib.tokens.tokenizer import AutoTokenizer
    from prep_lib.trace import decisions, own_tokenizer, trace, where

    for name, least in (("batch_size", 1), ("epoch", 0), ("seed", 0), ("world_size", 1)):
        if (given := getattr(asked, name)) is not None and given < least:
            raise BadParameter(f"--{name.replace('_', '-')} must be {least} or more, got {given}")
    if asked.document is not None:
        places = where(asked.dir, asked.document)
        told = decisions(asked.dir, asked.document, inputs=asked.inputs)
        steps = _steps(asked, [place.number for place in places]) if asked.batch_size and places else [""] * len(places)
        # Only now: whoever asked for a step that cannot be told gets one line, and no half of an answer.
        print(*told, *(f"{place}{step}" for place, step in zip(places, steps, strict=True)), sep="\n")
    elif asked.shard is None or asked.row is None:
        raise BadParameter("say --shard and --row, or --document")
    else:
        tokenizer = AutoTokenizer.load(asked.tokenizer) if asked.tokenizer else own_tokenizer(asked.dir)
        print(trace(asked.dir, asked.shard, asked.row, asked.position, tokenizer=tokenizer, inputs=asked.inputs))


def _steps(asked: argparse.Namespace, rows: list[int]) -> list[str]:
    """Say at which step a loader with these settings reads each row."""
    from prep_lib.events import listen
    from prep_lib.feed.dataset import PreProcessedDataset, TokenDataset
    from prep_lib.feed.loader import create_dataloader
    from prep_lib.remote import place
    from prep_lib.trace import step_of

    packed = any(place(asked.dir).glob("*.npz"))
    dataset = PreProcessedDataset(asked.dir) if packed else TokenDataset(asked.dir)
    # What a loader has to say of its speed is of no interest here.
    with listen(lambda event: None, instead=True):
        loader = create_dataloader(dataset, asked.batch_size, seed=asked.seed, world_size=asked.world_size)
    return [f"; {step or 'dropped at the end of the epoch'}" for step in step_of(loader, rows, asked.epoch)]


def _subsample(asked: argparse.Namespace) -> None:
    from prep_lib.shuffle.subsample import subsample

    names = ("num_samples", "fraction", "eval_samples", "stratify_by", "shard_size", "shuffle", "seed", "workers")
    given = {name: getattr(asked, name) for name in (*names, "memory_budget")}
    train, evals = subsample(asked.input_dir, asked.output_dir, **given)
    print(f"{asked.output_dir}: {train:,} rows for train, {evals:,} for eval")


def _shuffle_npz(asked: argparse.Namespace) -> None:
    from prep_lib.shuffle.shuffle_npz import command

    command(asked.more, prog="prep shuffle-npz")


def _strip_output(asked: argparse.Namespace) -> None:
    from prep_lib.workspace import strip_output

    sys.stdout.buffer.write(strip_output(sys.stdin.buffer.read().decode("utf-8")).encode("utf-8"))


# ── run ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _run(asked: argparse.Namespace) -> int:
    """Check everything, then run what is not done."""
    from prep_lib.recipes import read
    from prep_lib.workspace import Run, check_name, find_root

    if asked.workers < 0:
        raise BadParameter(f"--workers must be at least 1; got {asked.workers}")
    if asked.dry_run and (asked.first or asked.last or asked.only or asked.matrix):
        raise BadParameter("--dry-run tries a whole recipe; leave --from, --to, --only and --matrix out")
    if asked.matrix and (asked.detach or asked.on_done or asked.why):
        raise BadParameter("--detach, --on-done and --why are for one run; leave --matrix out")
    root = find_root()
    if asked.matrix:
        return _matrix(asked, root)
    recipe = _asked_recipe(read(asked.recipe, root, asked.given), asked)
    if asked.dry_run:
        return _dry_run(recipe, root)
    run = Run(root, check_name(recipe.name))
    if asked.why:
        return _checked(recipe, run) or _explained(recipe, run, asked)
    if not asked.detach:
        return _checked(recipe, run) or _whole_run(recipe, run, asked)
    from prep_lib.background import DETACHED, quiet

    if os.environ.pop(DETACHED, ""):  # this is the process that was started, and all is checked
        quiet()
        return _whole_run(recipe, run, asked)
    return _checked(recipe, run) or _detached(run, asked)


def _asked_recipe(recipe: Recipe, asked: argparse.Namespace) -> Recipe:
    """Return a recipe as the options want it: a part, a sample, with these workers."""
    recipe = recipe.give(**{name: value for name in ("rehash", "keep_old") if (value := getattr(asked, name))})
    recipe = recipe.give(workers=asked.workers) if asked.workers else recipe
    recipe = recipe.give(engine=name) if (name := _engine(asked)) else recipe
    recipe = recipe.part(asked.first, asked.last, asked.only)
    recipe = replace(recipe, name=asked.name or recipe.name)
    return recipe.sampled(asked.sample) if asked.sample else recipe


def _engine(asked: argparse.Namespace) -> str:
    """Return who works in the word that notebooks and functions take; empty if it was not asked for."""
    from prep_lib.cluster import KINDS
    from prep_lib.engine import Crew

    if asked.address and asked.engine not in KINDS:
        raise BadParameter(f"--address is of a cluster: give --engine {' or '.join(KINDS)} with it")
    name = f"{asked.engine}:{asked.address}" if asked.address else str(asked.engine)
    if name:
        Crew(name)  # it refuses what no engine is called
    return name


def _matrix(asked: argparse.Namespace, root: Path) -> int:
    """Check all combinations, run them, and print them beside each other."""
    from prep_lib.matrix import Cell, combinations, lines, names, page, run_matrix
    from prep_lib.recipes import read
    from prep_lib.workspace import Run, check_name

    found = combinations(asked.given, [step.notebook for step in read(asked.recipe, root).steps])
    recipes = [_asked_recipe(read(asked.recipe, root, given), asked) for _, given in found]
    base = check_name(recipes[0].name)
    called = names(base, [varied for varied, _ in found])
    cells = [
        Cell(varied, recipe, Run(root, name)) for (varied, _), recipe, name in zip(found, recipes, called, strict=True)
    ]
    for cell in cells:
        if code := _checked(cell.recipe, cell.run):
            return code
    failed = run_matrix(cells, rehash=asked.rehash, keep_old=asked.keep_old)
    print(*lines(cells, failed), sep="\n")
    print(f"report    {page(cells, failed, root / 'runs' / f'{base}-matrix.html')}")
    return 1 if failed else 0


def _checked(recipe: Recipe, run: Run) -> int:
    """Print everything that would stop the recipe, and return 0 if nothing would."""
    from prep_lib.preflight import preflight

    problems = preflight(recipe, run)
    for line in problems:
        print(line, file=sys.stderr)
    if problems:
        print(f"nothing was run: {len(problems)} to put right", file=sys.stderr)
    return 0 if not problems else 2 if recipe.problems else 1


def _explained(recipe: Recipe, run: Run, asked: argparse.Namespace) -> int:
    from prep_lib.press import explain

    print(*explain(recipe, run, rehash=asked.rehash, keep_old=asked.keep_old), sep="\n")
    return 0


def _detached(run: Run, asked: argparse.Namespace) -> int:
    """Start the same command as a process that this terminal does not take with it."""
    from prep_lib.background import LOG, detach

    process = detach(asked.words, run)
    print(f"run       {run.folder}\nstarted   process {process}; what it prints is in {run.folder / LOG}")
    for command, what in (("status", "how far it is"), ("attach", "what happens"), ("stop", "its end")):
        print(f"{f'prep {command} {run.name}':<32}  {what}")
    return 0


def _whole_run(recipe: Recipe, run: Run, asked: argparse.Namespace) -> int:
    from prep_lib.background import line, look, numbers_line
    from prep_lib.locks import lock
    from prep_lib.press import run_recipe
    from prep_lib.results import summary

    began = time.monotonic()
    print(f"run       {run.folder}\npython    {sys.executable}")
    with contextlib.ExitStack() as after:
        with lock(run.folder):
            # Once it is ours: whoever is turned away has not run.
            after.callback(_done, run, asked.on_done)
            executed = run_recipe(recipe, run, rehash=asked.rehash, keep_old=asked.keep_old, like=_like(asked))
        done = len(recipe.steps) - len(recipe.left) - len(executed)
        print(f"{len(executed)} notebooks run, {done} already done, {time.monotonic() - began:.1f} s")
        print(f"{numbers_line(summary(run))}\nreport    {run.folder / 'reports' / 'index.html'}\n{line(look(run))}")
    return 0


def _like(asked: argparse.Namespace) -> list[str]:
    """Return the options that whoever goes on with this run should give again; parameters are in its recipe.

    Not ``--on-done``: this is kept, and shown in reports, and a command may hold what is nobody's business.
    """
    words = [f"--{name.replace('_', '-')}" for name in ("detach", "keep_old") if getattr(asked, name)]
    for name, dest in (("--from", "first"), ("--to", "last"), ("--only", "only")):
        words += [name, value] if (value := getattr(asked, dest)) else []
    return words


def _done(run: Run, command: str) -> None:
    """Hand the run over to the user's command; what becomes of that is no part of the run."""
    from prep_lib.background import look, on_done

    if command and (trouble := on_done(command, look(run))):
        print(trouble, file=sys.stderr)


def _dry_run(recipe: Recipe, root: Path) -> int:
    """Run a sample in a folder that is removed again, and say what everything would take."""
    from prep_lib.press import run_recipe
    from prep_lib.trial import ROWS, estimate
    from prep_lib.workspace import Run

    (root / "runs").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root / "runs", prefix=".trial-", ignore_cleanup_errors=True) as folder:
        run = Run(root, Path(folder).name)
        trial = recipe.give(sample=ROWS)
        if code := _checked(trial, run):
            return code
        run_recipe(trial, run)
        print(*estimate(trial, run), sep="\n")
    return 0


# ── status, attach, stop, report ─────────────────────────────────────────────────────────────────────────────────────


def _opened(name: str) -> Run:
    """Find a run by its name or folder; the latest without one."""
    from prep_lib.workspace import Run, find_root, latest

    folder = Path(name)
    if name and (folder / "run.jsonl").is_file():
        folder = folder.resolve()
        return Run(folder.parents[1], folder.name)
    root = find_root()
    found = name or latest(root)
    if not found or not (root / "runs" / found).is_dir():
        known = sorted(path.name for path in (root / "runs").glob("*") if not path.name.startswith("."))
        raise BadParameter(f"no run {found or 'yet'} in {root}; there are: {', '.join(known) or 'none'}")
    return Run(root, found)


def _recipe_of(run: Run) -> Recipe | None:
    from prep_lib.recipes import read

    path = run.folder / "recipe.yaml"
    return read(path, run.root) if path.is_file() else None


def _status(asked: argparse.Namespace) -> int:
    """Print how a run stands; 1 if it failed."""
    from prep_lib.background import as_json, describe, line, look

    found = look(_opened(asked.run))
    if asked.json:
        print(json.dumps(as_json(found), ensure_ascii=False, indent=1))
    else:
        print(*([line(found)] if asked.line else describe(found)), sep="\n")
    return 1 if found.state == "failed" else 0


def _attach(asked: argparse.Namespace) -> int:
    from prep_lib.background import attach

    run = _opened(asked.run)
    try:
        return attach(run, lambda text: print(text, flush=True))
    except KeyboardInterrupt:
        print(f"left alone: the run goes on; `prep attach {run.name}` shows it again", file=sys.stderr)
        return 130


def _stop(asked: argparse.Namespace) -> None:
    from prep_lib.background import stop

    for text in stop(_opened(asked.run)):
        print(text, flush=True)


def _report(asked: argparse.Namespace) -> int:
    """Press every executed notebook of a run again, and the index."""
    from prep_lib.index import index
    from prep_lib.report import report

    run, torn = _opened(asked.run), 0
    for executed in sorted((run.folder / "executed").glob("*.ipynb")):
        try:
            report(executed, run)
        except BadInput as error:
            print(f"prep report: {error}", file=sys.stderr)
            torn = 1
    print(f"report    {index(run, _recipe_of(run))}")
    return torn


def _publish(asked: argparse.Namespace) -> None:
    """Send a run's data, under the run's name."""
    from prep_lib.publish import publish
    from prep_lib.remote import place, without_secrets

    run = _opened(asked.run)
    url = str(place(asked.url) / run.name)
    told = publish(run.folder / "data", url)
    print(f"{without_secrets(url)}: {told.files:,} files, {told.bytes:,} bytes; {told.sent:,} sent now")
    print(f"next: prep verify {without_secrets(url)}")


def _compare(asked: argparse.Namespace) -> None:
    """Print what differs, and write the page."""
    from prep_lib.comparison import brief
    from prep_lib.contrast import write

    found = _compared(asked)
    print(*brief(found), f"page      {write(found, _lang(asked, found.one.facts.lang))}", sep="\n")


def _compared(asked: argparse.Namespace) -> Comparison:
    from prep_lib.comparison import compare_runs

    return compare_runs(_opened(asked.run), _opened(asked.other), seed=asked.seed)


def _lang(asked: argparse.Namespace, own: str) -> str:
    from prep_lib.words import LANGS

    if asked.lang and asked.lang not in LANGS:
        raise BadParameter(f"--lang is one of {', '.join(LANGS)}; got {asked.lang!r}")
    return asked.lang or own


def _share(asked: argparse.Namespace) -> None:
    """Write a run, or two compared, as one file and one page."""
    from prep_lib.share import SAMPLES, share

    if asked.samples not in SAMPLES:
        raise BadParameter(f"--samples is one of {', '.join(SAMPLES)}; got {asked.samples!r}")
    found = _compared(asked) if asked.other else None
    options = {"samples": asked.samples, "names": asked.names, "lang": _lang(asked, ""), "out": asked.out}
    for path in share(_opened(asked.run), found, **options):
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
