"""A batch as a model gets it: rows as strips, one row token by token, who may look at whom; and what reading it cost.

row 0   ████████▌▓▓▓▓▓▌░░░░░░┆         ▌ its EOS      ┆ goes on in another row
row 1   ▒▒▒▒▒▒▒▒▒▒▌╱╱╱╱╱╱╱╱╱╱╱         ╱ padding

0    1    2   ╎ 0    1                 positions begin anew with every document
The  cat  EOS ╎ A    dog

◣                                      who may look at whom: a triangle a document, what lies outside is never seen
 ◣◣
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from prep_lib.errors import BadParameter
from prep_lib.markup import Html, Page, Part, bar, card, chip, chips, join, number, percent, snippet, table, tag
from prep_lib.words import say
from widgets.mask.page import Labels

if TYPE_CHECKING:
    from prep_lib.feed.loader import Profile
    from prep_lib.tokens.tokenizer import AutoTokenizer

#: Colours of the stylesheet: ``d0`` to ``d5`` of strips, ``o0`` to ``o5`` of documents.
COLOURS = 6

#: Rows drawn as strips; pieces of one drawn one by one; tokens written out; the longest piece without a number in it.
STRIPS, PIECES, TOKENS, ROOM = 12, 120, 400, 0.08


def view(batch: Mapping[str, Any], tokenizer: AutoTokenizer, *, row: int = 0, lang: str = "en") -> Page:
    """Show a batch of a `TokenDataset`.

    Parameters
    ----------
    batch : mapping
        ``input_ids`` and ``segment_ids`` (n, width); ``position_ids`` and ``labels`` are shown where they are there.
    tokenizer : AutoTokenizer
    row : int
        Which row is written out, from 0.
    lang : str

    Raises
    ------
    BadParameter
        If the batch has no ``segment_ids``, or no such row.
    """
    if "segment_ids" not in batch:
        raise BadParameter("widgets/batch: the batch has no segment_ids; make the dataset with segment_ids=True")
    arrays = {name: np.asarray(batch[name]) for name in _NAMES if name in batch}
    if not 0 <= row < len(arrays["input_ids"]):
        raise BadParameter(f"widgets/batch: row {row} of a batch of {len(arrays['input_ids'])}")
    counts = _counts(arrays, lang)
    head = join([tag("h1", say("batch.title", lang)), tag("p", counts, cls="sub")])
    one = {name: values[row] for name, values in arrays.items()}
    body = [head, _strips(arrays, tokenizer, lang), _tokens(one, row, tokenizer, lang), _blocks(one, row, lang)]
    return Page(snippet(join(body), lang), f"batch: {_counts(arrays, 'en')}")


_NAMES = ("input_ids", "segment_ids", "position_ids", "labels")


def _counts(arrays: Mapping[str, np.ndarray], lang: str) -> str:
    segments = arrays["segment_ids"]
    rows, width = segments.shape
    padding = int((segments < 0).sum())
    return say(
        "batch.sum", lang, rows=rows, width=width, pieces=int((segments.max(axis=1) + 1).sum()),
        tokens=segments.size - padding, padding=percent(padding, segments.size),
    )  # fmt: skip


def _pieces(segments: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Number, begin and end of each run of one number; padding is number -1."""
    begins = np.flatnonzero(np.diff(segments, prepend=-2))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(segments)], strict=True):
        yield int(segments[begin]), begin, end


# ---------------------------------------------------------------------------------------------------------------------
# Strips
# ---------------------------------------------------------------------------------------------------------------------


def _strips(arrays: Mapping[str, np.ndarray], tokenizer: AutoTokenizer, lang: str) -> Html:
    ids, segments = arrays["input_ids"], arrays["segment_ids"]
    drawn = [_strip(ids[at], segments[at], at, tokenizer.eos_token_id, lang) for at in range(min(len(ids), STRIPS))]
    boxes = [("d0 ends", "batch.legend_ends"), ("cut-mark", "batch.legend_goes"), ("hatch", "padding")]
    legend = (tag("span", tag("span", cls=f"box {kind}"), say(word, lang)) for kind, word in boxes)
    title = say("batch.strips", lang, n=len(drawn), rows=len(ids))
    return card(title, tag("div", *legend, cls="legend"), *drawn)


def _strip(ids: np.ndarray, segments: np.ndarray, at: int, eos: int | None, lang: str) -> Html:
    pieces, width = list(_pieces(segments)), len(ids)
    parts = [_part(ids, piece, eos, lang) for piece in pieces[:PIECES]]
    if rest := pieces[PIECES:]:
        more = rest[-1][2] - rest[0][1]
        parts.append(Part("d-more", more, say("batch.more", lang, n=len(rest), tokens=more)))
    documents, filled = int(segments.max()) + 1, percent((segments >= 0).sum(), width)
    name, said = say("batch.row", lang, at=at), say("batch.strip", lang, n=documents, filled=filled)
    drawn = bar(parts, width, f"{name}: {said}")
    return tag("div", tag("span", name, cls="dim"), drawn, tag("span", filled), cls="strip", title=said)


def _part(ids: np.ndarray, piece: tuple[int, int, int], eos: int | None, lang: str) -> Part:
    document, begin, end = piece
    size = end - begin
    if document < 0:
        return Part("hatch", size, f"{say('padding', lang)} {size:,}")
    ends = ids[end - 1] == eos
    said = say("batch.piece_ends" if ends else "batch.piece_goes", lang, n=size)
    label = f"{size:,}" if size >= ROOM * len(ids) else ""
    return Part(f"d{document % COLOURS} {'ends' if ends else 'goes'}", size, said, label)


# ---------------------------------------------------------------------------------------------------------------------
# One row
# ---------------------------------------------------------------------------------------------------------------------


def _tokens(row: Mapping[str, np.ndarray], at: int, tokenizer: AutoTokenizer, lang: str) -> Html:
    labels, pieces, width = Labels(tokenizer), list(_pieces(row["segment_ids"])), len(row["input_ids"])
    # Around the end of the first document: there is what a batch is about.
    start = max(0, min(pieces[0][2] - TOKENS // 2, width - TOKENS))
    stop, groups = min(start + TOKENS, width), []
    for document, begin, end in pieces:
        first, last = max(begin, start), min(end, stop)
        if first < last:
            drawn = [_chip(row, place, labels, tokenizer.eos_token_id, lang) for place in range(first, last)]
            groups.append((*_told(document, row, begin, end, lang), drawn, _kind(document, begin)))
    shown = chips(groups, say("batch.hint", lang), say("batch.tokens_label", lang, at=at))
    part = say("batch.part", lang, first=start, last=stop - 1, all=width) if stop - start < width else ""
    note = tag("p", join([say("batch.tokens_note", lang), part], " "), cls="dim small")
    return card(say("batch.tokens", lang, at=at), note, shown)


def _kind(document: int, begin: int) -> str:
    return f"doc o{document % COLOURS}{' new' * (begin > 0)}" if document >= 0 else ""


def _told(document: int, row: Mapping[str, np.ndarray], begin: int, end: int, lang: str) -> tuple[str, str]:
    if document < 0:
        return say("padding", lang), say("batch.why_padding", lang)
    sentence = say("batch.why_document", lang)
    if "labels" in row:
        sentence += " " + say("batch.targets", lang, n=int((row["labels"][begin:end] >= 0).sum()))
    return say("batch.document", lang, at=document, n=end - begin), sentence


def _chip(row: Mapping[str, np.ndarray], at: int, labels: Labels, eos: int | None, lang: str) -> Html:
    token, padding = int(row["input_ids"][at]), bool(row["segment_ids"][at] < 0)
    label, raw, control = labels(token)
    position = int(row["position_ids"][at]) if "position_ids" in row else None
    kinds = "pad" if padding else f"{control} eos" if token == eos else control
    detail = say("batch.detail", lang, id=token, at=at, position=number(position), bytes=raw)
    if "labels" in row:
        wanted = int(row["labels"][at])
        detail += " · " + (say("batch.no_target", lang) if wanted < 0 else say("batch.target", lang, id=wanted))
    above = Html() if position is None else tag("small", position)
    return chip(join([above, label]), kinds.strip(), detail)


# ---------------------------------------------------------------------------------------------------------------------
# Who may look at whom
# ---------------------------------------------------------------------------------------------------------------------


def _blocks(row: Mapping[str, np.ndarray], at: int, lang: str) -> Html:
    pieces, width = list(_pieces(row["segment_ids"])), len(row["input_ids"])
    inside = sum((end - begin) * (end - begin + 1) // 2 for document, begin, end in pieces if document >= 0)
    share = percent(inside, width * (width + 1) // 2)
    said = say("batch.blocks_said", lang, at=at, n=sum(document >= 0 for document, _, _ in pieces), share=share)
    drawn = join(_triangle(width, *piece) for piece in pieces)
    picture = tag("svg", drawn, cls="blocks", viewBox=f"0 0 {width} {width}", role="img", aria_label=said)
    return card(say("batch.blocks", lang), tag("p", said, cls="dim small"), picture)


def _triangle(width: int, document: int, begin: int, end: int) -> Html:
    kind = f"o{document % COLOURS}" if document >= 0 else "none"
    path = tag("path", cls=kind, d=f"M{begin} {begin}V{end}H{end}Z")
    size = end - begin
    if document < 0:
        return path
    high = min(0.22 * size, 0.07 * width)
    middle = {"x": f"{begin + 0.3 * size:.6g}", "y": f"{begin + 0.75 * size:.6g}", "font_size": f"{high:.4g}"}
    return join([path, tag("text", document, **middle)])


# ---------------------------------------------------------------------------------------------------------------------
# What it cost
# ---------------------------------------------------------------------------------------------------------------------

_PHASES = ("read", "convert", "collate", "hand_over")


def costs(profile: Profile, lang: str = "en") -> Page:
    """Show where the time of a loader goes, and which setting to change.

    Parameters
    ----------
    profile : Profile
    lang : str
    """
    times = {name: float(getattr(profile, name)) for name in _PHASES}
    whole = sum(times.values())
    kinds = dict(zip(_PHASES, ("d0", "d2", "d4", "d5"), strict=True))
    words = {name: say(f"batch.phase_{name}", lang) for name in _PHASES}
    parts = [Part(kinds[name], seconds, f"{words[name]} {_time(seconds)}") for name, seconds in times.items()]
    legend = (tag("span", tag("span", cls=f"box {kinds[name]}"), words[name]) for name in _PHASES)
    rows = [(words[name], _time(seconds), percent(seconds, whole)) for name, seconds in times.items()]
    head = [say(word, lang) for word in ("batch.phase", "batch.seconds", "share")]
    said = ", ".join(f"{words[name]} {percent(seconds, whole)}" for name, seconds in times.items())
    grid = table(head, rows, best=_PHASES.index(profile.bottleneck))
    rate = say("batch.rate", lang, rows=number(profile.rows / profile.total, 0), time=_time(profile.total))
    advice = tag("p", tag("b", say(f"feed.advice_{profile.advice}", lang)))
    drawn = join([tag("p", rate), tag("div", *legend, cls="legend"), bar(parts, whole, said), grid, advice])
    line = f"profile: {profile.bottleneck} takes most, {profile.advice}"
    return Page(snippet(card(say("batch.costs", lang), drawn), lang), line)


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:,.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:,.3g} µs"
