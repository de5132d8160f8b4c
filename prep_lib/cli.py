"""prep init | lab | run | status | report | verify | doctor | convert | subsample | shuffle-npz | trace.

prep init DIR              a workspace: copies of the notebooks, recipes, my_funcs.py
prep lab [DIR]             JupyterLab in it
prep run RECIPE            its notebooks in order, headless  ──▶  runs/NAME/reports/index.html
prep status [RUN]          what is done, while it runs and after
prep report [RUN]          the HTML again, from the executed notebooks
prep verify DIR            shards against their manifest
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
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prep_lib.errors import BadInput, BadParameter, PrepError

if TYPE_CHECKING:
    # Everything else is imported by the command that needs it: `prep --help` must not wait for a tokenizer.
    from prep_lib.recipes import Recipe
    from prep_lib.results import Numbers
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
        parser.error(f"unknown: {' '.join(more)}")
    asked.more = more
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
        made.set_defaults(command=call)
        return made

    command("init", _init, "make a workspace, or bring one up to date").add_argument("dir", metavar="DIR")
    lab = command("lab", _lab, "open JupyterLab in a workspace; options of JupyterLab are handed on")
    lab.add_argument("dir", metavar="DIR", nargs="?")
    _run_options(command("run", _run, "run a recipe's notebooks and press their reports"))
    for name, call, text in (
        ("status", _status, "say what a run has done"),
        ("report", _report, "make the HTML reports of a run again"),
    ):
        command(name, call, text).add_argument(
            "run", metavar="RUN", nargs="?", default="", help="the latest if not given"
        )
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
    parser.add_argument("--dry-run", action="store_true", help="try 2,000 rows and say what everything would take")
    parser.add_argument("--name", default="", metavar="NAME", help="of the run; the recipe's if not given")
    parser.add_argument("--rehash", action="store_true", help="read inputs again even if they look unchanged")
    parser.add_argument("--keep-old", action="store_true", help="keep what is done even if our code has changed since")


# ── init, lab, verify, doctor, convert, strip-output ────────────────────────────────────────────────────────────────


def _init(asked: argparse.Namespace) -> None:
    from prep_lib.workspace import init

    print(*init(asked.dir), sep="\n")
    print(f"next: prep lab {asked.dir}")


def _lab(asked: argparse.Namespace) -> int:
    """Open a workspace, making it if need be; the originals are never opened."""
    from prep_lib.workspace import CHECKOUT, MARKER, find_root, init, write_kernel

    folder = Path(asked.dir).expanduser().resolve() if asked.dir else find_root()
    if folder == CHECKOUT:
        folder = CHECKOUT / "workspace"
    if not asked.dir and folder != CHECKOUT / "workspace" and not (folder / MARKER).is_file():
        raise BadParameter(f"{folder} is no workspace; name one: prep lab DIR")
    print(*init(folder), sep="\n")
    first = folder / "notebooks" / "00_tour.ipynb"
    options = [f"--ServerApp.root_dir={folder}", "--KernelManager.transport=ipc", *asked.more]
    options += ["--LabApp.default_url=/lab/tree/notebooks/00_tour.ipynb"] if first.is_file() else []
    environment = {**os.environ, "JUPYTER_PATH": str(write_kernel(folder / ".prep" / "jupyter"))}
    return subprocess.run([sys.executable, "-m", "jupyterlab", *options], env=environment, check=False).returncode


def _verify(asked: argparse.Namespace) -> int:
    """Check every folder below that has a manifest."""
    from prep_lib.shards.verify import verify

    if not Path(asked.dir).is_dir():
        raise BadParameter(f"no folder {asked.dir}")
    folders = sorted(path.parent for path in Path(asked.dir).rglob("manifest.json")) or [Path(asked.dir)]
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
    from prep_lib.shards.interop import convert
    from prep_lib.shards.megatron import blend_line

    out = asked.out or f"{os.path.abspath(asked.dir)}-{asked.to}"
    told = convert(asked.dir, asked.to, out)
    totals = told["totals"]
    shown = [f"{totals[name]:,} {name}" for name in ("rows", "documents", "tokens", "targets") if name in totals]
    print(f"{out}: {', '.join(shown)}")
    if totals.get("lost"):
        print(f"{totals['lost']:,} tokens were dropped with the last pack: a document ends before its end")
    if "blend" in told:
        print(blend_line(told, os.path.abspath(out)))
    print(f"next: python {Path(out, 'read_me.py')}, and README.md for the program's settings")


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
    from prep_lib.engine import listen
    from prep_lib.feed.dataset import PreProcessedDataset, TokenDataset
    from prep_lib.feed.loader import create_dataloader
    from prep_lib.trace import step_of

    packed = any(Path(asked.dir).glob("*.npz"))
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
    root = find_root()
    recipe = read(asked.recipe, root, asked.given)
    recipe = recipe.give(**{name: value for name in ("rehash", "keep_old") if (value := getattr(asked, name))})
    recipe = recipe.give(workers=asked.workers) if asked.workers else recipe
    if asked.dry_run:
        return _dry_run(recipe, root)
    run = Run(root, check_name(asked.name or recipe.name))
    return _checked(recipe, run) or _whole_run(recipe, run, asked)


def _checked(recipe: Recipe, run: Run) -> int:
    """Print everything that would stop the recipe, and return 0 if nothing would."""
    from prep_lib.recipes import preflight

    problems = preflight(recipe, run)
    for line in problems:
        print(line, file=sys.stderr)
    if problems:
        print(f"nothing was run: {len(problems)} to put right", file=sys.stderr)
    return 0 if not problems else 2 if recipe.problems else 1


def _whole_run(recipe: Recipe, run: Run, asked: argparse.Namespace) -> int:
    from prep_lib.engine import lock
    from prep_lib.press import run_recipe
    from prep_lib.results import summary

    began = time.monotonic()
    print(f"run       {run.folder}\npython    {sys.executable}")
    with lock(run.folder):
        executed = run_recipe(recipe, run, rehash=asked.rehash, keep_old=asked.keep_old)
    done = len(recipe.steps) - len(executed)
    took = f"{len(executed)} notebooks run, {done} already done, {time.monotonic() - began:.1f} s"
    print(f"{took}\n{_numbers(summary(run))}\nreport    {run.folder / 'reports' / 'index.html'}")
    return 0


def _numbers(found: Numbers) -> str:
    """Return the numbers that matter in one line."""
    from prep_lib.markup import number, percent

    return (
        f"records   {number(found.records)} in, {number(found.kept)} kept; {number(found.tokens)} tokens; "
        f"packing efficiency {percent(found.efficiency)}"
    )


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


# ── status, report ───────────────────────────────────────────────────────────────────────────────────────────────────


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
    """Print the notebooks of a run, what the ledgers say, and what is being worked on."""
    from prep_lib.results import ledgers, numbers, states, summary
    from prep_lib.workspace import read_events

    run = _opened(asked.run)
    recipe = _recipe_of(run)
    found = states(run, [step.notebook for step in recipe.steps] if recipe else [])
    counted = ledgers(run)
    print(f"run       {run.folder}")
    alive = _is_held(run)
    for name, (state, text) in found.items():
        state = "interrupted" if state == "running" and not alive else state
        told = f"  {_numbers(numbers(counted[name]))}" if name in counted else ""
        print(f"{name:<16} {state:<11}{told}{'  ' + text if text else ''}")
    last = next((event for event in reversed(read_events(run.folder)[0]) if event.get("event") == "task"), None)
    if last and alive:
        print(f"{last['stage']}: {last['done']} of {last['tasks']} tasks, at {last['time']}")
    print(_numbers(summary(run)))
    return 1 if any(state == "failed" for state, _ in found.values()) else 0


def _is_held(run: Run) -> bool:
    """Say whether a living process works in this run; what a dead one left is for the next run to take over."""
    import filelock

    from prep_lib.engine import HIDDEN

    lock = run.folder / HIDDEN / "lock"
    try:
        with filelock.FileLock(lock).acquire(timeout=0) if lock.is_file() else contextlib.nullcontext():
            return False
    except filelock.Timeout:
        return True


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


if __name__ == "__main__":
    sys.exit(main())
