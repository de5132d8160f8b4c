"""What near duplicates show: signatures of everything, some pairs compared exactly, and a threshold to move.

signatures of all  ──▶ who would go at 0.50 … 1.00, by source     once; the slider looks it up
verdicts of a run  ──▶ pairs with their exact J, clusters    ┐
some signatures    ──▶ pairs that stay, truth, families      ┴──▶ texts of those alone, in one pass over the files

Of more than 50,000 documents a sample is shown, chosen by signature so that near duplicates come together.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from prep_lib.decide import Sketches, sketches
from prep_lib.documents import Documents
from prep_lib.errors import BadInput, BadParameter
from prep_lib.files import is_remote
from prep_lib.pipeline import fetch
from prep_lib.record import Document
from prep_lib.rejected import valid
from prep_lib.text.near_dedup import (
    NearDedup,
    choose_bands,
    clusters,
    curve,
    exact_jaccard,
    families,
    groups,
    sampled,
    settle,
)
from prep_lib.text.shingles import parse_shingle, shingle_hashes, units

#: The lowest threshold on the slider, and its steps in percent: up to `FINE` documents, and beyond.
LOWEST, STEP, WIDE, FINE = 50, 1, 5, 20_000

#: Pairs ready to be shown for each percent of similarity, of those that went and of those that stay.
EACH = 3

#: Clusters and families shown, and texts of each.
GROUPS, MEMBERS = 8, 3

#: Documents compared with all others; texts read for that; characters of all texts read.
ANCHORS, TEXTS, CHARACTERS = 100, 1_500, 64_000_000

#: Documents whose signatures are held and compared; characters of the files that are read for texts.
MOST, READ = 50_000, 2**30

#: From this share on a source loses most of itself.
ALARM = 0.5

#: Choices whose numbers are remembered.
REMEMBERED = 64

#: Two documents and their exact similarity. `went`: the run dropped the first in favour of the second.
SEEN = np.dtype([("one", "<i8"), ("two", "<i8"), ("jaccard", "<f8"), ("went", "?")])

#: A text in pieces, each with whether it is in another one too.
Pieces: TypeAlias = tuple[tuple[str, bool], ...]

_BANDS = re.compile(r"\s*(\d{1,4})\s*[x×*,; ]\s*(\d{1,4})\s*")


@dataclass(frozen=True, eq=False)
class Data:
    """What was found out once. Nothing in it changes.

    Parameters
    ----------
    stage : NearDedup
        As it ran.
    ids : sequence of str
        The documents it decided about; the arrays below have their order.
    names : tuple of str
        Sources, the largest first.
    codes : (n,) int64
        Place of each document's source among them.
    rows : (n,) of `NearDedup.row`
    before : (s,) int64
        Documents of each source that went before they came to this stage.
    twin, jaccard : (n,) int64, (n,) float64
        What the run decided: which document stays in its stead (-1: it stays itself, or that one is not in the
        sample), and how alike they are.
    gone : (n,) bool
        Which documents the run dropped.
    share : float
        Which share of the documents these are; 1.0: all.
    scale : float
        What an estimate from the sample is multiplied by: at the threshold of the run it is then what the run dropped.
    stops : tuple of float
        Thresholds of the slider, ascending.
    dropped : (stops, s) int64
        Documents that would go at each, as the signatures estimate it.
    pairs : (p,) of `SEEN`
        With texts, ascending by similarity.
    marked : sequence of (pieces of `one`, pieces of `two`)
        The texts of each pair in pieces, each with whether it is in both.
    points : (q,) of `near_dedup.PAIR`
        Sampled truth.
    families : tuple of (k,) int64
        Documents that differ only in their digits, the largest first.
    texts : mapping of int to Document
    memo : dict
        What was worked out already.
    """

    stage: NearDedup
    ids: Sequence[str]
    names: tuple[str, ...]
    codes: np.ndarray
    rows: np.ndarray
    before: np.ndarray
    twin: np.ndarray
    jaccard: np.ndarray
    gone: np.ndarray
    share: float
    scale: float
    stops: tuple[float, ...]
    dropped: np.ndarray
    pairs: np.ndarray
    marked: Sequence[tuple[Pieces, Pieces]]
    points: np.ndarray
    families: tuple[np.ndarray, ...]
    texts: Mapping[int, Document]
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def documents(self) -> np.ndarray:
        """How many documents of each source this stage decided about, (s,) int64."""
        return np.bincount(self.codes, minlength=len(self.names))

    @property
    def went(self) -> np.ndarray:
        """How many of them the run dropped, (s,) int64."""
        return np.bincount(self.codes[self.gone], minlength=len(self.names))


def collect(folder: str | Path, files: Any, stage: NearDedup) -> Data:
    """Read what a run decided, and the texts that are shown or compared.

    Parameters
    ----------
    folder : path
        That `decide.decide_files` wrote.
    files : path, address or sequence of them
        That it was given.
    stage : NearDedup
        Its signatures must be those of the run; what only decides may differ.

    Raises
    ------
    BadInput
        If the folder is not complete, or no such stage decided there.
    BadParameter
        If the run made its signatures in another way.
    """
    told = Documents(folder)
    ran = _ran(told, stage)
    share = min(1.0, MOST / max(1, told.ledger.total(ran.name, "in")))
    noted = sketches(folder, ran, choose=partial(sampled, share=share) if share < 1 else None)
    rows, before = noted.rows, _before(told, ran.name)
    if share < 1:
        before = Counter({name: round(count * share) for name, count in before.items()})
    counts = Counter(noted.sources) + before
    names = tuple(sorted(counts, key=lambda name: (-counts[name], name)))
    place = {name: at for at, name in enumerate(names)}
    codes = np.array([place[name] for name in noted.sources], np.int64)
    twin, jaccard, gone = _decided(told, noted.ids, ran.name)
    scale = _scale(ran, rows, gone) if share < 1 else 1.0
    stops, dropped = _thresholds(ran, rows, codes, len(names))
    readable, only = _readable(told, noted)
    found, wanted = families(rows), _wanted(ran, rows, twin, jaccard, gone, readable)
    shown = [row for row, _, members in _clusters(twin, jaccard) for row in (row, *members)]
    shown += [int(row) for family in found[:GROUPS] for row in family[:MEMBERS]]
    shown, within = [row for row in shown if readable[row]], np.flatnonzero(readable)
    asked = [*shown, *wanted.flatten().tolist(), *within[_asked(ran, rows[within])].tolist()]
    texts = _read(told, files, noted, asked, only)
    pairs, marked = _compared(ran, wanted, twin, texts)
    points = ran.truth(rows[within], lambda at: _evidence(ran, texts)(int(within[at])), anchors=ANCHORS)
    points["anchor"], points["other"] = within[points["anchor"]], within[points["other"]]
    kept = {*shown, *pairs["one"].tolist(), *pairs["two"].tolist()}
    return Data(
        ran, noted.ids, names, codes, rows, np.array([before[name] for name in names], np.int64), twin, jaccard, gone,
        share, scale, stops, np.round(dropped * scale).astype(np.int64), pairs, marked, points, found,
        {row: doc for row, doc in texts.items() if row in kept},
    )  # fmt: skip


def _ran(told: Documents, stage: NearDedup) -> NearDedup:
    """Return the stage as it ran."""
    ran = [one["parameters"] for one in told.contents["stages"] if one["name"] == stage.name]
    if not ran:
        raise BadInput(f"widgets/pairs: {stage.name} did not decide in {told.folder}; run the notebook that does")
    for name, value in ran[0].items():
        if name not in stage.decides and value != getattr(stage, name):
            raise BadParameter(
                f"widgets/pairs: the run had {name}={value!r}, this stage has {getattr(stage, name)!r}; run it again "
                "or give the stage that ran"
            )
    return replace(stage, **ran[0])


def _before(told: Documents, name: str) -> Counter[str]:
    """Return how many documents of each source the stages before this one dropped."""
    earlier = [one["name"] for one in told.contents["stages"]]
    earlier = earlier[: earlier.index(name)]
    out: Counter[str] = Counter()
    for (stage, flow, source, _), count in told.ledger.documents.items():
        if stage in earlier and flow == "dropped":
            out[source] += count
    return out


def _decided(told: Documents, ids: Sequence[str], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what the run decided about each document: its twin among these, how alike, and whether it went."""
    places = {valid(one): at for at, one in enumerate(ids)}
    twin, jaccard, gone = np.full(len(ids), -1, np.int64), np.zeros(len(ids)), np.zeros(len(ids), bool)
    for line in told.rejected():
        if line["stage"] == name and line["flow"] == "dropped" and (row := places.get(line["id"])) is not None:
            twin[row], jaccard[row], gone[row] = places.get(line["twin"], -1), line["value"], True
    return twin, jaccard, gone


def _scale(stage: NearDedup, rows: np.ndarray, gone: np.ndarray) -> float:
    """Return how many of a sample the run dropped for each that goes in the sample alone."""
    alone = int(stage.rehearse(rows, thresholds=(), largest=0).dropped.sum())
    return float(gone.sum() / alone) if alone else 1.0


def _readable(told: Documents, noted: Sketches) -> tuple[np.ndarray, set[str] | None]:
    """Return whose texts may be read, and from which files alone: of many spans a few, evenly spread; None: all."""
    share = READ / max(1, told.contents["characters"])
    if share >= 1:
        return np.ones(len(noted.ids), bool), None
    spans = np.linspace(0, len(noted.files) - 1, max(1, int(share * len(noted.files)))).astype(np.int64)
    bases = [told.contents["parts"][at]["base"] for span in spans for at in noted.files[span]]
    paths = {base if is_remote(base) else os.path.abspath(told.folder / base) for base in bases}
    return np.isin(noted.spans, spans), paths


def _thresholds(
    stage: NearDedup, rows: np.ndarray, codes: np.ndarray, sources: int
) -> tuple[tuple[float, ...], np.ndarray]:
    """Return the stops of the slider, and how many documents of each source would go there."""
    grid = range(LOWEST, 101, STEP if len(rows) <= FINE else WIDE)
    stops = tuple(stop / 100 for stop in grid if reaches(stage, stop / 100))
    told = _at(stage, stops[0]).rehearse(rows, codes, thresholds=stops, largest=0)
    dropped = np.zeros((len(stops), sources), np.int64)
    dropped[:, : told.dropped.shape[1]] = told.dropped
    return stops, dropped


def reaches(stage: NearDedup, threshold: float) -> bool:
    """Tell whether bands can be chosen that find enough at this threshold."""
    try:
        choose_bands(threshold, stage.num_perm, stage.recall)
    except BadParameter:
        return False
    return True


def _at(stage: NearDedup, threshold: float, bands: tuple[int, int] | None = None) -> NearDedup:
    return replace(stage, threshold=threshold, bands=bands and bands[0], rows=bands and bands[1])


# ---------------------------------------------------------------------------------------------------------------------
# Which texts are read
# ---------------------------------------------------------------------------------------------------------------------


def _wanted(
    stage: NearDedup, rows: np.ndarray, twin: np.ndarray, jaccard: np.ndarray, gone: np.ndarray, readable: np.ndarray
) -> np.ndarray:
    """Return pairs to show, (p, 2) int64, those next to the threshold first: of any similarity, gone and not."""
    went = np.flatnonzero((twin >= 0) & readable & readable[twin])
    chosen = [_few(rows, went, twin[went], jaccard[went], stage.threshold)]
    chosen.append(_few(rows, *_stay(stage, rows, gone, readable), stage.threshold))
    pairs, alike = (np.concatenate(each) for each in zip(*chosen, strict=True))
    return np.asarray(pairs[np.argsort(np.abs(alike - stage.threshold), kind="stable")])


def _stay(
    stage: NearDedup, rows: np.ndarray, gone: np.ndarray, readable: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return pairs of which the run kept both, and lower thresholds would not: ones, twos, likely similarity."""
    found = [np.empty((3, 0))]
    for percent in range(LOWEST, 101, WIDE):
        if percent / 100 < stage.threshold and reaches(stage, percent / 100):
            lower = _at(stage, percent / 100)
            met = groups(lower.keys(rows), np.arange(len(rows)))
            near, likely = settle(rows, *met, None, lower.threshold, keep=stage.keep)
            stays = ~gone & readable
            both = np.flatnonzero((near >= 0) & stays & stays[near])
            found.append(np.stack([both, near[both], likely[both]]))
    ones, twos, likely = np.unique(np.concatenate(found, axis=1), axis=1)
    return ones.astype(np.int64), twos.astype(np.int64), likely


def _few(
    rows: np.ndarray, ones: np.ndarray, twos: np.ndarray, alike: np.ndarray, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return a few pairs of each percent of similarity, (p, 2), those next to the threshold first; and how alike."""
    percent = np.floor(100 * alike + 1e-9).astype(np.int64)
    order = np.lexsort([rows["id"][ones], np.abs(alike - threshold), percent])
    rank = np.arange(len(order)) - np.searchsorted(percent[order], percent[order])
    order = order[rank < EACH]
    return np.stack([ones, twos], axis=1)[order], alike[order]


def _clusters(twin: np.ndarray, jaccard: np.ndarray) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return the documents in whose favour most went, how many did, and some of those, the least alike first."""
    out = []
    for row, count in clusters(twin, GROUPS):
        members = np.flatnonzero(twin == row)
        order = np.argsort(jaccard[members], kind="stable")[:MEMBERS]
        out.append((row, count, tuple(members[order].tolist())))
    return out


def _asked(stage: NearDedup, rows: np.ndarray) -> list[int]:
    """Return whose texts sampled truth asks for, as many as are read."""
    asked: dict[int, None] = {}
    stage.truth(rows, lambda at: asked.setdefault(at), anchors=ANCHORS)
    return list(asked)[:TEXTS]


def _read(
    told: Documents, files: Any, noted: Sketches, wanted: Iterable[int], only: set[str] | None
) -> dict[int, Document]:
    """Read texts in one pass, as many of the first as there is room for."""
    room, chosen = CHARACTERS, dict[str, int]()
    for row in dict.fromkeys(wanted):
        if noted.characters[row] <= room:
            room -= int(noted.characters[row])
            chosen[noted.ids[row]] = row
    options = {"text": told.contents["text"], "source_field": told.contents["source_field"]}
    return {chosen[name]: doc for name, doc in fetch(files, chosen, only=only, **options).items()}


def _evidence(stage: NearDedup, texts: Mapping[int, Document]) -> Callable[[int], np.ndarray | None]:
    return lambda row: stage.evidence(texts[row]) if row in texts else None


def _compared(
    stage: NearDedup, wanted: np.ndarray, twin: np.ndarray, texts: Mapping[int, Document]
) -> tuple[np.ndarray, list[tuple[Pieces, Pieces]]]:
    """Return the pairs whose texts are there, ascending by their exact similarity, and what they share."""
    found = [(one, two) for one, two in wanted.tolist() if one in texts and two in texts]
    sets = {row: stage.evidence(texts[row]) for pair in found for row in pair}
    pairs = np.array([(one, two, exact_jaccard(sets[one], sets[two]), twin[one] == two) for one, two in found], SEEN)
    pairs = pairs[np.argsort(pairs["jaccard"], kind="stable")]
    marked = [
        (shared(texts[one].text, sets[two], stage.shingle), shared(texts[two].text, sets[one], stage.shingle))
        for one, two, _, _ in pairs.tolist()
    ]
    return pairs, marked


def shared(text: str, other: np.ndarray, shingle: str) -> Pieces:
    """Return a text in pieces, each with whether its words are in a shingle that another text has too.

    What the similarity counts is marked: the same words in other lines, or elsewhere, are the same.

    Parameters
    ----------
    text : str
    other : (m,) uint64
        Shingle hashes of the other text.
    shingle : str

    Examples
    --------
    >>> other = shingle_hashes("the cat sat there", "word2")
    >>> shared("So the cat\\nsat down", other, "word2")
    (('So ', False), ('the cat\\nsat ', True), ('down', False))
    """
    starts, size = _starts(text, shingle), parse_shingle(shingle).size
    if not starts:
        return ((text, False),)
    hits = np.flatnonzero(np.isin(shingle_hashes(text, shingle), other))
    # A word is covered by the shingles that begin at it, or at one of the few before it.
    edges = np.zeros(len(starts) + 1, np.int64)
    edges[hits] += 1
    np.add.at(edges, np.minimum(hits + size, len(starts)), -1)
    covered = np.cumsum(edges[:-1]) > 0
    turns = [0, *(np.flatnonzero(np.diff(covered)) + 1).tolist()]
    ends = [*(starts[turn] for turn in turns[1:]), len(text)]
    return tuple((text[a:b], bool(covered[turn])) for a, b, turn in zip([0, *ends[:-1]], ends, turns, strict=True))


def _starts(text: str, shingle: str) -> list[int]:
    """Return where the words, or the characters, begin that shingles are made of."""
    if parse_shingle(shingle).by == "char":
        return [at for at, char in enumerate(text) if not char.isspace()]
    out: list[int] = []
    for chunk in re.finditer(r"\S+", text):
        at = chunk.start()
        for piece in units(chunk[0], shingle):
            # A few capitals are longer in lower case: then the last words of a chunk begin at its end.
            out.append(min(at, chunk.end()))
            at += len(piece)
    return out


# ---------------------------------------------------------------------------------------------------------------------
# What a person chooses
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """What a person has chosen.

    Parameters
    ----------
    data : Data
    threshold : float
    bands : (int, int) or None
        Bands and rows as a person gave them. None: chosen for the threshold.
    shown : int
        Pairs shown on each side of the threshold.
    lang : str
    saved : tuple of (name, value)
        The parameters cell as it stands; empty: not known.
    """

    data: Data = field(repr=False)
    threshold: float
    bands: tuple[int, int] | None = None
    shown: int = 3
    lang: str = "en"
    saved: tuple[tuple[str, Any], ...] = ()

    @property
    def stage(self) -> NearDedup:
        """The stage as it is chosen now."""
        return _at(self.data.stage, self.threshold, self.bands)


def start(data: Data, stage: NearDedup, lang: str = "en", shown: int = 3) -> State:
    """Return the state as the parameters cell says: with the threshold and the bands of `stage`."""
    assert stage.bands is not None
    assert stage.rows is not None
    given = stage.bands, stage.rows
    own = reaches(data.stage, stage.threshold) and given == _chosen(data.stage, stage.threshold)
    return save(State(data, stage.threshold, None if own else given, shown, lang))


def _chosen(stage: NearDedup, threshold: float) -> tuple[int, int]:
    return choose_bands(threshold, stage.num_perm, stage.recall)


def with_threshold(state: State, value: float) -> State:
    """Return the state with another threshold; one that no bands reach, or that is none, changes nothing."""
    if not 0 < value <= 1 or (state.bands is None and not reaches(state.data.stage, value)):
        return state
    return replace(state, threshold=value)


def with_text(state: State, text: str) -> State:
    """Return the state with a threshold as it was typed; what is no number changes nothing."""
    try:
        return with_threshold(state, float(text))
    except ValueError:
        return state


def stop(state: State) -> int:
    """Return the stop of the slider nearest to the threshold."""
    return int(np.argmin(np.abs(np.array(state.data.stops) - state.threshold)))


def with_stop(state: State, at: int) -> State:
    """Move the threshold to a stop; the one it is nearest to changes nothing."""
    stops = state.data.stops
    return state if at == stop(state) or not 0 <= at < len(stops) else with_threshold(state, stops[at])


def banded(state: State) -> tuple[int, int]:
    """Return the bands and rows in use."""
    return state.bands or _chosen(state.data.stage, state.threshold)


def show_bands(state: State) -> str:
    """Write bands and rows as `with_bands` reads them."""
    bands, rows = banded(state)
    return f"{bands} x {rows}" if state.bands else f"auto: {bands} x {rows}"


def with_bands(state: State, text: str) -> State:
    """Return the state with bands and rows as typed, ``9 x 13``; ``auto`` or nothing: chosen for the threshold."""
    if not text.strip() or text.strip().lower().startswith("auto"):
        return replace(state, bands=None) if reaches(state.data.stage, state.threshold) else state
    found = _BANDS.fullmatch(text)
    bands, rows = map(int, found.groups()) if found else (0, 0)
    return replace(state, bands=(bands, rows)) if 0 < bands * rows <= state.data.stage.num_perm else state


def parameters(state: State) -> dict[str, Any]:
    """Return the choices by the names the parameters cell and `NearDedup` give them; bands only if they are chosen."""
    own = state.bands is not None or "bands" in dict(state.saved)
    bands, rows = state.bands or (None, None)
    return {"threshold": state.threshold} | ({"bands": bands, "rows": rows} if own else {})


def save(state: State) -> State:
    """Return the state whose choices are those of the parameters cell."""
    return replace(state, saved=tuple(parameters(state).items()))


def unsaved(state: State) -> str:
    """Return the lines to put into the parameters cell; empty when it says the same already."""
    if not state.saved or dict(state.saved) == parameters(state):
        return ""
    return "\n".join(f"{name} = {value!r}" for name, value in parameters(state).items())


# ---------------------------------------------------------------------------------------------------------------------
# What follows
# ---------------------------------------------------------------------------------------------------------------------


def dropped(state: State) -> np.ndarray:
    """Return how many documents of each source would go now, (s,) int64, as the signatures estimate it."""
    data = state.data
    if state.bands is None and state.threshold in data.stops:
        return np.asarray(data.dropped[data.stops.index(state.threshold)])
    return _remembered(data, "dropped", (state.threshold, state.bands), lambda: _rehearsed(state))


def _rehearsed(state: State) -> np.ndarray:
    told = state.stage.rehearse(state.data.rows, state.data.codes, thresholds=(), largest=0).dropped[0]
    told = np.round(told * state.data.scale).astype(np.int64)
    return np.concatenate([told, np.zeros(len(state.data.names) - len(told), np.int64)])


class Loss(NamedTuple):
    """A source and what it loses.

    Parameters
    ----------
    source : str or None
        None: all that are not named.
    documents : int
        At the beginning.
    before : int
        Gone before this stage.
    went : int
        Gone by it when it ran.
    now : int
        That would go by it now, estimated.
    """

    source: str | None
    documents: int
    before: int
    went: int
    now: int

    @property
    def share(self) -> float:
        """Which share of it would be lost altogether."""
        return (self.before + self.now) / self.documents if self.documents else 0.0

    @property
    def alarm(self) -> bool:
        """Whether it would lose most of itself."""
        return self.share > ALARM


def losses(state: State) -> list[Loss]:
    """Return every source: those that lose most of themselves first, then the largest."""
    data = state.data
    numbers = zip(
        data.names, (data.documents + data.before).tolist(), data.before.tolist(), data.went.tolist(),
        dropped(state).tolist(), strict=True,
    )  # fmt: skip
    told = [Loss(*each) for each in numbers]
    return sorted(told, key=lambda one: -one.share if one.alarm else 0.0)


def together(told: Sequence[Loss]) -> Loss:
    """Return the sum of sources."""
    return Loss(
        None, sum(one.documents for one in told), sum(one.before for one in told), sum(one.went for one in told),
        sum(one.now for one in told),
    )  # fmt: skip


class Stop(NamedTuple):
    """What would come of a threshold: with bands chosen for it, unless it is the one that is looked at."""

    threshold: float
    bands: int
    rows: int
    dropped: int


def thresholds(state: State) -> list[Stop]:
    """Return some thresholds over the whole range, the present one and that of the run among them."""
    data = state.data
    told = {stop: int(row.sum()) for stop, row in zip(data.stops, data.dropped, strict=True)}
    named = {stop for stop in data.stops if round(100 * stop) % WIDE == 0 or stop == data.stage.threshold}
    found = {stop: Stop(stop, *_chosen(data.stage, stop), told[stop]) for stop in named}
    found[state.threshold] = Stop(state.threshold, *banded(state), int(dropped(state).sum()))
    return [found[stop] for stop in sorted(found)]


class Pair(NamedTuple):
    """Two documents side by side.

    Parameters
    ----------
    one, two : Document
        The second stays in the stead of the first, if that goes.
    jaccard : float
        Exact.
    went : bool
        Whether the run dropped the first for the second.
    met : bool
        Whether the present bands bring them together.
    marked : (pieces of the first, pieces of the second)
        Each with whether it is in both.
    """

    one: Document
    two: Document
    jaccard: float
    went: bool
    met: bool
    marked: tuple[Pieces, Pieces]


def borderline(state: State) -> tuple[list[Pair], list[Pair]]:
    """Return the pairs nearest to the threshold that do not reach it, and the nearest that do."""
    data = state.data
    middle = int(np.searchsorted(data.pairs["jaccard"], state.threshold))
    below = range(max(0, middle - state.shown), middle)[::-1]
    above = range(middle, min(middle + state.shown, len(data.pairs)))
    met = _meet(state, data.pairs["one"], data.pairs["two"])
    return [_pair(data, at, met) for at in below], [_pair(data, at, met) for at in above]


def _pair(data: Data, at: int, met: np.ndarray) -> Pair:
    one, two, jaccard, went = data.pairs[at].item()
    return Pair(data.texts[one], data.texts[two], jaccard, bool(went), bool(met[at]), data.marked[at])


def found(state: State) -> np.ndarray:
    """Return which points of the truth the present bands find, (q,) bool."""
    points = state.data.points
    return _remembered(
        state.data, "found", banded(state), lambda: _meet(state, points["anchor"], points["other"])
    )  # fmt: skip


def _meet(state: State, ones: np.ndarray, twos: np.ndarray) -> np.ndarray:
    """Return which pairs share a band now."""
    stage, rows = _at(state.data.stage, state.threshold, banded(state)), state.data.rows
    return np.asarray((stage.keys(rows[ones]) == stage.keys(rows[twos])).any(axis=1))


class Bin(NamedTuple):
    """Points of the truth whose similarity lies between two numbers, and how many of them the curve expects."""

    low: float
    high: float
    pairs: int
    found: int
    expected: float


def bins(state: State, edges: Sequence[float]) -> list[Bin]:
    """Return the points of the truth between edges; the last edge belongs to the last of them."""
    alike, hit = state.data.points["jaccard"], found(state)
    expected = curve(*banded(state), alike)
    out = []
    for low, high in pairwise(edges):
        inside = (alike >= low) & ((alike < high) | (high == edges[-1]))
        out.append(Bin(low, high, int(inside.sum()), int(hit[inside].sum()), float(expected[inside].sum())))
    return out


class Group(NamedTuple):
    """Documents that belong together: a cluster, or a family.

    Parameters
    ----------
    members : int
        How many.
    went : int
        How many of them the run dropped.
    texts : tuple of (Document, float or None)
        Some of them, with their similarity to the one that stays: None for that itself, and where it is not known.
    """

    members: int
    went: int
    texts: tuple[tuple[Document, float | None], ...]


def largest(state: State) -> list[Group]:
    """Return the largest clusters of the run: the one that stays first, then the least alike."""
    return list(_remembered(state.data, "groups", "clusters", lambda: [*_largest(state.data)]))


def _largest(data: Data) -> Iterator[Group]:
    for row, count, members in _clusters(data.twin, data.jaccard):
        alike = {row: None} | {one: float(data.jaccard[one]) for one in members}
        yield Group(count + 1, count, tuple((data.texts[one], alike[one]) for one in alike if one in data.texts))


def templates(state: State) -> list[Group]:
    """Return the largest families of documents that differ only in their digits."""
    return list(_remembered(state.data, "groups", "families", lambda: [*_templates(state.data)]))


def _templates(data: Data) -> Iterator[Group]:
    for family in data.families[:GROUPS]:
        some = [int(row) for row in family[:MEMBERS] if row in data.texts]
        yield Group(len(family), int(data.gone[family].sum()), tuple((data.texts[row], None) for row in some))


def _remembered(data: Data, what: str, key: Any, make: Callable[[], Any]) -> Any:
    """Work something out once, and forget what was not asked for longest."""
    known = data.memo.setdefault(what, {})
    known[key] = known.pop(key) if key in known else make()
    if len(known) > REMEMBERED:
        del known[next(iter(known))]
    return known[key]
