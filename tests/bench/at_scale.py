"""The whole pretraining way at scale: once as it is, once killed twice, under one command.

    python tests/bench/at_scale.py --gb 10 --texts FOLDER --work DIR      FOLDER: .jsonl, .jsonl.gz with a field text

    texts ──recombined──▶ corpus/part-00.jsonl …    planted.jsonl: who is a copy of whom, and how alike, exactly
    corpus ──prep run──▶ whole/runs/way                                                    time, memory
           ──prep run, SIGKILL, prep run, SIGKILL, prep run──▶ killed/runs/way             the same bytes?

A document is put together from runs of lines of many texts of one source, a quarter as long as a text of that source:
real lines, few of them together twice, so that what stands there twice was planted. All sources have about as many
documents. One in twenty is a copy of one that came before, nearly always in another file; half of the copies are
changed somewhere. Recipe and commands are those of a user; the parent is killed at random shares of the time that the
first run took. How alike near copies are is worked out anew from the texts in which duplicates are looked for, because
rules of quality cut lines. Results stand with those of `make bench`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import main as bench
import numpy as np
import orjson
import psutil
import yaml

from prep_lib import Documents, corpus, rejected, seeds
from prep_lib.files import Span, digest, natural
from prep_lib.ledger import Ledger
from prep_lib.pipeline import fetch
from prep_lib.record import Document
from prep_lib.shards.manifest import read_manifest
from prep_lib.source.jsonl import read_records
from prep_lib.text.near_dedup import NearDedup, exact_jaccard
from prep_lib.text.normalize import Normalize

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script: the helpers of the tests
import killing

#: One document in so many is a copy; half of the copies are exact.
COPIES = 20

#: A run of lines has about so many bytes, a document at most so many runs; a longer line is cut at blanks or stops.
RUN, RUNS, LINE = 250, 16, 400

#: Bytes of a document, and how much longer a text of its source is.
SMALLEST, LARGEST, LONGER = 300, 12_000, 4

#: Documents that may be copied yet, and the share that joins them; those made in one go.
POOL, JOIN, BATCH = 20_000, 0.1, 4096

#: Bytes of a file of the corpus, at most; the memory that is allowed for 2 workers, bytes.
FILE, LIMIT = 2**29, 8 * 2**30

NAME, RECIPE = "way", "scale.yaml"

# ── the corpus ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Source:
    """The texts of one file behind each other, as they stand inside a JSON string.

    Parameters
    ----------
    name : str
    bytes : bytes
    cuts : list of int
        Where a run of lines may begin or end, ascending; the first and last place among them.
    lengths : (texts,) int64, bytes
    """

    name: str
    bytes: bytes
    cuts: list[int]
    lengths: np.ndarray


def files_of(folder: Path) -> list[Path]:
    """Return the files of the texts, in natural order."""
    return sorted(folder.glob("*.jsonl*"), key=lambda path: natural(path.name))


def read_sources(folder: Path) -> list[Source]:
    """Read the texts that are recombined."""
    found = []
    for path in files_of(folder):
        records = (record for _, record in read_records(Span(str(path))) if isinstance(record, dict))
        texts = [text for record in records if isinstance(text := record.get("text"), str) and text.strip()]
        if texts:
            found.append(_source(path.name.split(".")[0], texts))
    if not found:
        raise SystemExit(f"at_scale: no texts in {folder}; give a folder of .jsonl or .jsonl.gz with a field text")
    return found


def _source(name: str, texts: Sequence[str]) -> Source:
    whole, cuts, lengths, at = list[bytes](), [0], list[int](), 0
    for text in texts:
        begin = at
        for line in text.splitlines(keepends=True):
            for piece in _pieces(line):
                whole.append(inside(piece))
                at += len(whole[-1])
                cuts.append(at)
        lengths.append(min(max((at - begin) // LONGER, SMALLEST), LARGEST))
    return Source(name, b"".join(whole), cuts, np.array(lengths))


def _pieces(line: str) -> Iterator[str]:
    """Yield a line, a long one in pieces that end behind a stop or a blank, if it has any."""
    while len(line) > LINE:
        stop = max(line.rfind(mark, LINE // 4, LINE) for mark in (". ", "。", "，", " "))
        stop = stop + 1 if stop > 0 else LINE
        yield line[:stop]
        line = line[stop:]
    yield line


def inside(text: str) -> bytes:
    """Return what stands between the quotes of a JSON string.

    Examples
    --------
    >>> inside('a "b"')
    b'a \\\\"b\\\\"'
    """
    return orjson.dumps(text)[1:-1]


class Writer:
    """Writes the corpus, and what was planted in it."""

    def __init__(self, folder: Path, files: int, seed: int) -> None:
        self.folder, self.chance, self.seed = folder, random.Random(seed), seed
        folder.mkdir(parents=True)
        self.files: list[IO[bytes]] = [(folder / f"part-{at:02d}.jsonl").open("wb", 2**20) for at in range(files)]
        self.lines, self.bytes = [0] * files, 0
        self.pool: list[tuple[str, int, bytes]] = []
        self.near = Near()
        self.planted = (folder.parent / "planted.jsonl").open("wb")

    def close(self) -> None:
        for file in (*self.files, self.planted):
            file.close()

    def write(self, source: Source, body: bytes) -> str:
        """Write one document, and return its id."""
        at = self.chance.randrange(len(self.files))
        self.files[at].write(b'{"text":"%b","source":"%b"}\n' % (body, source.name.encode()))
        self.lines[at] += 1
        self.bytes += len(body)
        return f"part-{at:02d}.jsonl#L{self.lines[at]}"

    def fill(self, sources: Sequence[Source], size: int) -> None:
        """Write documents until there are so many bytes of text."""
        draws, number = seeds.stream(self.seed, "at scale"), 0
        while self.bytes < size:
            chosen = draws.integers(len(sources), size=BATCH).tolist()
            made = {at: bodies(sources[at], chosen.count(at), draws) for at in sorted(set(chosen))}
            for at in chosen:
                self._add(sources, at, next(made[at]))
                number += 1
                if self.bytes >= size:
                    return

    def _add(self, sources: Sequence[Source], at: int, body: bytes) -> None:
        if self.pool and self.chance.random() < 1 / COPIES:
            self._plant(sources, body)
            return
        name = self.write(sources[at], body)
        if len(self.pool) < POOL:
            self.pool.append((name, at, body))
        elif self.chance.random() < JOIN:
            self.pool[self.chance.randrange(POOL)] = (name, at, body)

    def _plant(self, sources: Sequence[Source], other: bytes) -> None:
        """Write a copy of a document of the pool; no document is copied twice, and no copy is."""
        spot = self.chance.randrange(len(self.pool))
        self.pool[spot], self.pool[-1] = self.pool[-1], self.pool[spot]
        first, at, body = self.pool.pop()
        kind, alike = "exact", 1.0
        if self.chance.random() < 0.5:
            kind, (body, alike) = "near", self.near.copy(body, other, self.chance.uniform(0.005, 0.2))
        second = self.write(sources[at], body)
        self.planted.write(orjson.dumps({"kind": kind, "first": first, "second": second, "jaccard": alike}) + b"\n")


class Near:
    """Makes near copies, and says how alike they are: as the stage sees them, normalised and in its shingles."""

    def __init__(self) -> None:
        self.normalize, self.stage = Normalize(), NearDedup()

    def copy(self, body: bytes, other: bytes, share: float) -> tuple[bytes, float]:
        """Return a body with a share of it replaced by the text of another, and their Jaccard similarity."""
        text, strange = (orjson.loads(b'"%b"' % each) for each in (body, other))
        size = max(1, int(len(text) * share))
        at = int(len(text) * share * 4) % max(1, len(text) - size)  # anywhere
        changed = text[:at] + strange[:size] + text[at + size :]
        return inside(changed), round(exact_jaccard(self._set(text), self._set(changed)), 6)

    def _set(self, text: str) -> np.ndarray:
        return self.stage.evidence(self.normalize.map(Document("", text)))


def bodies(source: Source, count: int, draws: np.random.Generator) -> Iterator[bytes]:
    """Yield the texts of new documents, as they stand inside a JSON string."""
    lengths = source.lengths[draws.integers(len(source.lengths), size=count)]
    runs = np.clip(lengths // RUN, 3, RUNS)
    starts = draws.integers(len(source.cuts) - 1, size=int(runs.sum())).tolist()
    whole, cuts, at = source.bytes, source.cuts, 0
    last = len(cuts) - 1
    for length, number in zip(lengths.tolist(), runs.tolist(), strict=True):
        parts, size = [], length // number
        for start in starts[at : at + number]:
            begin = cuts[start]
            parts.append(whole[begin : cuts[min(bisect_left(cuts, begin + size, start + 1), last)]])
        at += number
        # A run that ends inside a line gets a line end of its own.
        yield b"".join(part if part.endswith(b"\\n") else part + b"\\n" for part in parts)


def write_corpus(texts: Path, folder: Path, size: int, seed: int) -> dict[str, Any]:
    """Write a corpus of about `size` bytes of text, unless the same one is there; return what it holds."""
    read = {path.name: digest(path) for path in files_of(texts)}
    asked = {"bytes": size, "seed": seed, "code": digest(__file__), "texts": read}
    note = folder.parent / "corpus.json"
    with contextlib.suppress(OSError, ValueError):
        told: dict[str, Any] = json.loads(note.read_bytes())
        if told["asked"] == asked:
            return told
    shutil.rmtree(folder, ignore_errors=True)
    began, writer = time.monotonic(), Writer(folder, max(4, -(-size // FILE)), seed)
    with contextlib.closing(writer):
        writer.fill(read_sources(texts), size)
    told = {
        "asked": asked, "documents": sum(writer.lines), "text": writer.bytes,
        "bytes": sum(path.stat().st_size for path in folder.iterdir()), "seconds": time.monotonic() - began,
    }  # fmt: skip
    note.write_text(json.dumps(told, indent=1))
    return told


# ── the runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def workspace(folder: Path, data: Path, benchmarks: Path) -> None:
    """Make a workspace with the recipe of the way: what `prep init` writes, without pages to read."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([*prep(), "init", str(folder)], check=True, stdout=subprocess.DEVNULL)
    notebooks = [
        {"11_clean": {"files": str(data)}}, "12_dedup", {"13_mix": {"benchmarks": str(benchmarks)}}, "14_tokenize",
        {"15_pack": {"seq_len": 2048}},
    ]  # fmt: skip
    (folder / RECIPE).write_text(yaml.safe_dump({"name": NAME, "notebooks": notebooks}, sort_keys=False))


def prep() -> list[str]:
    """Return how `prep` is called here."""
    return [sys.executable, "-m", "prep_lib.cli"]


@dataclass
class Watched:
    """A process and all it starts; the most memory they held together, looked at twice a second.

    Parameters
    ----------
    kind : str
        "PSS": shared pages are counted once; "RSS" where the system does not tell: each counts them.
    peak : int, bytes
    by_notebook : dict
        The same for each notebook.
    """

    events: Path
    kind: str = "PSS"
    peak: int = 0
    by_notebook: dict[str, int] = field(default_factory=dict)

    def follow(self, process: subprocess.Popen[Any], stop: threading.Event) -> None:
        """Look until `stop` is set."""
        while not stop.wait(0.5):
            with contextlib.suppress(psutil.Error):
                one = psutil.Process(process.pid)
                held = sum(self._held(each) for each in (one, *one.children(recursive=True)))
                self.peak = max(self.peak, held)
                now = self._notebook()
                self.by_notebook[now] = max(self.by_notebook.get(now, 0), held)

    def _held(self, process: psutil.Process) -> int:
        with contextlib.suppress(psutil.Error):
            told = process.memory_full_info()
            self.kind = self.kind if hasattr(told, "pss") else "RSS"
            return int(getattr(told, "pss", told.rss))
        return 0

    def _notebook(self) -> str:
        states = [event for event in _events(self.events) if event.get("event") == "notebook"]
        return str(states[-1]["notebook"]) if states else ""


def _events(path: Path) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(OSError):
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                yield orjson.loads(line)


def go(folder: Path, workers: int, watched: Watched, until: float | None = None) -> tuple[float, bool]:
    """Run the way, or kill the parent after so many seconds.

    Returns
    -------
    float, bool
        Seconds until nothing of it is left; whether it was killed: it may end before.
    """
    began, stop, killed = time.monotonic(), threading.Event(), False
    log = (folder / "log.txt").open("ab")
    process, mark = killing.start(
        [*prep(), "run", RECIPE, "--workers", str(workers)], cwd=folder, stdout=log, stderr=log, text=False
    )
    thread = threading.Thread(target=watched.follow, args=(process, stop), daemon=True)
    thread.start()
    try:
        if process.wait(until):
            raise SystemExit(f"at_scale: the run ended with {process.returncode}; see {folder / 'log.txt'}")
    except subprocess.TimeoutExpired:
        killed = True
    finally:
        stop.set()
        thread.join()
        process.send_signal(signal.SIGKILL)
        process.wait()
        log.close()
    if left := killing.wait_gone(mark, within=30):
        raise SystemExit(f"at_scale: left behind by a killed run: {left}")
    return time.monotonic() - began, killed


def shares(kills: int, seed: int) -> list[float]:
    """Return the moments of the kills, as shares of the time of the first run, ascending.

    Examples
    --------
    >>> len(shares(2, 1)), shares(2, 1) == sorted(shares(2, 1))
    (2, True)
    """
    return sorted(seeds.stream(seed, "kills").uniform(0.02, 0.98, kills).round(3).tolist())


# ── what came of it ──────────────────────────────────────────────────────────────────────────────────────────────────


def bytes_of(run: Path) -> dict[str, str]:
    """Return the sha256 of everything that says what the notebooks wrote, the digests of their files among it."""
    names = ("manifest.json", "documents.json", "ledger.json", "tokenizer.json")
    paths = [path for name in names for path in (run / "data").rglob(name)]
    return {path.relative_to(run).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}


def on_disk(run: Path) -> dict[str, int]:
    """Return the bytes under each folder that a notebook wrote, its hidden corner apart."""
    out: dict[str, int] = {}
    for path in (path for path in (run / "data").rglob("*") if path.is_file()):
        parts = path.relative_to(run / "data").parts
        hidden = next((at for at, part in enumerate(parts) if part.startswith(".")), None)
        name = "/".join(parts[:-1] if hidden is None else parts[: hidden + 1])
        out[name] = out.get(name, 0) + path.stat().st_size
    return out


def unbalanced(run: Path, documents: int) -> list[str]:
    """Return what does not add up, from the corpus to the last token; nothing if all is well."""
    wrong, data = list[str](), run / "data"
    names = ("11_clean", "12_dedup", "13_mix/texts", "13_mix", "15_pack")
    ledgers = {name: Ledger.from_json((data / name / "ledger.json").read_bytes()) for name in names}
    for ledger in ledgers.values():
        ledger.check()
    came = ledgers["11_clean"].total("read", "in")
    wrong += [f"{documents:,} documents were written, {came:,} came"] if came != documents else []
    for (before, one), (after, other) in pairwise(ledgers.items()):
        for unit in ("documents", "characters") if after != "15_pack" else ("documents",):
            # A build counts what it reads in one stage; others in `read`.
            out, into = one.total(one.stages[-1], "kept", unit=unit), other.total(other.stages[0], "in", unit=unit)
            wrong += [f"{before} kept {out:,} {unit}, {after} read {into:,}"] if out != into else []
    written = sum(shard["tokens"] for shard in read_manifest(data / "15_pack")["shards"])
    counted = ledgers["15_pack"].total("tokens", "written", unit="tokens")
    return wrong + ([f"{counted:,} tokens counted, {written:,} in the shards"] if written != counted else [])


@dataclass
class Found:
    """What became of the planted pairs; a pair counts where both came as far as the duplicates.

    Parameters
    ----------
    pairs, found : dict of str to int
        Of "exact", and of "near" with a similarity of at least the threshold: all, and those of which one went.
    one : int
        Pairs found of which the other stayed, or went for another reason that is told.
    wrong : list of str
        Pairs of which both went for each other, and drops below the threshold.
    """

    pairs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("exact", "near"), 0))
    found: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("exact", "near"), 0))
    one: int = 0
    wrong: list[str] = field(default_factory=list)


def planted(run: Path, file: Path) -> Found:
    """Look up every planted pair in what was turned down."""
    pairs = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    names = {pair[which] for pair in pairs for which in ("first", "second")}
    early = {line["id"] for line in _turned_down(run, "11_clean") if line["id"] in names}
    gone = {line["id"]: line for line in _turned_down(run, "12_dedup") if line["id"] in names}
    stages = Documents(run / "data" / "12_dedup").contents["stages"]
    threshold = next(stage["parameters"]["threshold"] for stage in stages if stage["name"] == "near_dedup")
    out, came = Found(), [pair for pair in pairs if not early.intersection((pair["first"], pair["second"]))]
    alike = _alike(run, [pair for pair in came if pair["kind"] == "near"])
    for pair in came:
        both = pair["first"], pair["second"]
        _judge(out, {**pair, "jaccard": alike.get(both, 1.0)}, [gone.get(name) for name in both], threshold)
    return out


def _alike(run: Path, pairs: Sequence[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Return how alike the documents of each pair are as they came to the duplicates."""
    stage, clean = NearDedup(), run / "data" / "11_clean"
    texts = fetch(clean, [pair[which] for pair in pairs for which in ("first", "second")])
    both = [(pair["first"], pair["second"]) for pair in pairs]
    return {(one, two): exact_jaccard(stage.evidence(texts[one]), stage.evidence(texts[two])) for one, two in both}


def _turned_down(run: Path, notebook: str) -> Iterator[dict[str, Any]]:
    return rejected.read(run / "data" / notebook / rejected.NAME)


def _judge(out: Found, pair: dict[str, Any], went: Sequence[dict[str, Any] | None], threshold: float) -> None:
    both = pair["first"], pair["second"]
    for_each_other = [line is not None and line["twin"] in both for line in went]
    if pair["jaccard"] < threshold:
        out.wrong += [f"{both}: {pair['jaccard']} alike, and one went for the other"] if any(for_each_other) else []
        return
    kind = pair["kind"]
    out.pairs[kind] += 1
    out.found[kind] += any(went)
    if all(for_each_other):
        out.wrong.append(f"{both}: each went for the other")
    elif any(went):
        # Who went has a twin that is told; where both went, a third one stayed in the stead of one of them.
        out.one += all(line is None or line["twin"] for line in went)


# ── all of it ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Told:
    """What is known in the end."""

    rows: list[bench.Row] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, value: float, unit: str, goal: str | None = None) -> None:
        self.rows.append({"room": "at_scale", "name": name, "value": value, "unit": unit, "goal": goal, "runs": 1})


def run(asked: argparse.Namespace) -> Told:
    """Write the corpus, go the way twice, and compare."""
    work, told = Path(asked.work).resolve(), Told()
    work.mkdir(parents=True, exist_ok=True)
    size = round(asked.gb * 10**9)
    made = write_corpus(Path(asked.texts).resolve(), work / "corpus", size, asked.seed)
    benchmarks = Path(asked.benchmarks).resolve() if asked.benchmarks else corpus.write_benchmark(work / "exam")
    say(f"corpus: {made['documents']:,} documents, {made['bytes'] / 1e9:.2f} GB, {made['seconds']:.0f} s")
    _warm(Path(asked.texts).resolve(), work / "small", benchmarks, asked)
    whole, killed = work / "whole", work / "killed"
    workspace(whole, work / "corpus", benchmarks)
    watched = Watched(whole / "runs" / NAME / "run.jsonl")
    seconds, _ = go(whole, asked.workers, watched)
    say(f"in one go: {seconds:.1f} s, {made['text'] / 1e6 / seconds:.1f} MB/s")
    _check_whole(told, whole / "runs" / NAME, made, work / "planted.jsonl")
    told.details |= {"corpus": made, "seconds": seconds, "notebooks": times(whole / "runs" / NAME)}
    expected = bytes_of(whole / "runs" / NAME)
    if not asked.keep:
        shutil.rmtree(whole / "runs" / NAME / "data")
    workspace(killed, work / "corpus", benchmarks)
    again = Watched(killed / "runs" / NAME / "run.jsonl")
    moments = shares(asked.kills, asked.seed)
    parts = [
        go(killed, asked.workers, again, until=(late - early) * seconds) for early, late in pairwise([0, *moments])
    ]
    parts.append(go(killed, asked.workers, again))
    spent, kills = sum(took for took, _ in parts), sum(was for _, was in parts)
    say(f"killed {kills} times, asked for at {', '.join(f'{share:.0%}' for share in moments)}: {spent:.1f} s")
    found = bytes_of(killed / "runs" / NAME)
    differ = [name for name in {*expected, *found} if expected.get(name) != found.get(name)]
    told.details |= {"kills": moments, "parts": parts, "differ": differ, "manifests": expected}
    most = max(watched, again, key=lambda one: one.peak)
    _tell(told, asked, made, seconds, (kills, spent), most, len(differ))
    return told


def _warm(texts: Path, work: Path, benchmarks: Path, asked: argparse.Namespace) -> None:
    """Go the way with a megabyte, so that kernels are compiled, once a machine, before anything is measured."""
    write_corpus(texts, work / "corpus", min(10**6, round(asked.gb * 10**9)), asked.seed)
    workspace(work / "whole", work / "corpus", benchmarks)
    seconds, _ = go(work / "whole", asked.workers, Watched(work / "whole" / "runs" / NAME / "run.jsonl"))
    say(f"a megabyte, kernels compiled: {seconds:.0f} s")


def _check_whole(told: Told, run: Path, made: dict[str, Any], pairs: Path) -> None:
    verified = subprocess.run([*prep(), "verify", str(run / "data" / "15_pack")], capture_output=True, text=True)
    wrong, found = unbalanced(run, made["documents"]), planted(run, pairs)
    told.details |= {"verify": verified.stdout[-2000:], "unbalanced": wrong, "planted": found.__dict__}
    told.details["on_disk"] = on_disk(run)
    for kind, goal in (("exact", ">= 1"), ("near", ">= 0.99")):
        share = found.found[kind] / found.pairs[kind] if found.pairs[kind] else 1.0
        told.add(f"planted {kind} duplicates found, of {found.pairs[kind]:,}", share, "share", goal)
    told.add(
        "of these, one stayed, or went for a third", found.one / max(1, sum(found.found.values())), "share", ">= 1"
    )
    told.add("planted pairs decided wrongly", len(found.wrong), "pairs", "<= 0")
    told.add("sums that do not balance", len(wrong), "sums", "<= 0")
    told.add("prep verify: ended with", verified.returncode, "code", "<= 0")


def _tell(
    told: Told,
    asked: argparse.Namespace,
    made: dict[str, Any],
    once: float,
    killed: tuple[int, float],
    most: Watched,
    differ: int,
) -> None:
    name = f"{made['text'] / 1e9:.2g} GB, {asked.workers} workers"
    told.add("killed and resumed: files that say something else", differ, "files", "<= 0")
    told.add(f"killed {killed[0]} times / in one go", killed[1] / once, "x", "<= 1.05")
    told.add(f"most memory of all processes, {most.kind}", most.peak / 2**30, "GiB", f"<= {LIMIT >> 30}")
    told.add(f"{name}: in one go", once, "s", "<= 900" if asked.gb == 10 else None)
    told.add(f"{name}: in one go", made["text"] / 1e6 / once, "MB/s")
    told.details["memory"] = {"kind": most.kind, "peak": most.peak, "by_notebook": most.by_notebook}


def times(run: Path) -> dict[str, float]:
    """Return the seconds of each notebook."""
    return {path.stem: json.loads(path.read_bytes())["seconds"] for path in sorted((run / "executed").glob("*.json"))}


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do all of it; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description="The whole pretraining way at scale, killed and resumed.")
    parser.add_argument("--gb", type=float, default=10, metavar="N", help="gigabytes of text")
    parser.add_argument("--texts", required=True, metavar="FOLDER", help=".jsonl and .jsonl.gz with a field text")
    parser.add_argument("--work", required=True, metavar="DIR", help="gets the corpus and both runs")
    parser.add_argument(
        "--benchmarks", metavar="FOLDER", help="looked for in the texts; a small one of ours if not given"
    )
    parser.add_argument("--kills", type=int, default=2, metavar="N")
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of corpus and kills")
    parser.add_argument(
        "--keep", action="store_true", help="keep what the first run wrote; else only one run is on disk"
    )
    asked = parser.parse_args(arguments)
    machine = bench.machine()
    print(bench.introduce(machine), flush=True)
    told = run(asked)
    path = bench.save(machine, told.rows)
    stored = json.loads(path.read_bytes())
    path.write_text(json.dumps({**stored, "details": told.details}, indent=1) + "\n", "utf-8")
    print(f"\n{bench.table(told.rows)}\n\nwritten to {path}")
    return 0 if all(row["met"] is not False for row in stored["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
