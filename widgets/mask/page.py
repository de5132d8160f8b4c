"""A stored row as chips, coloured by loss, each with the sentence that says why it is or is not trained.

trained   bold, underlined       context   plain
control   boxed                  padding   hatched

⟦im▁start⟧user ↵ 你好 ⟦im▁end⟧ ↵ ⟦im▁start⟧assistant ↵ **Hi** **!** ⟦**im▁end**⟧ ↵ ╎ a document begins
─────────────────────────────────────────────────────────────────────────────────
id 3 · position 22 · bytes EF BD 9C …
document 0 of the row · a.jsonl#L12
Trained. The stored loss mask is True here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from prep_lib.errors import BadParameter
from prep_lib.markup import Html, Page, card, chip, chips, escape, join, percent, snippet, tag
from prep_lib.special import MARKER
from prep_lib.words import say

if TYPE_CHECKING:
    from prep_lib.tokens.tokenizer import AutoTokenizer

#: Tokens drawn at once: more would make a notebook's output heavy and nobody reads them.
MOST = 2_000

Group = tuple[str, str, list[Html], str]


#: Colours that tell neighbouring documents apart: ``o0`` to ``o5`` of the stylesheet.
COLOURS = 6


def _legend(lang: str, masked: bool) -> Html:
    kinds = {"on": "mask.legend_trained", "": "mask.legend_context"} if masked else {}
    kinds |= {"ctl": "mask.legend_control", "ctl eos": "mask.legend_eos", "pad": "mask.legend_padding"}
    word = say("mask.legend_word", lang)
    shown = [join([tag("b", word, cls=f"chip {kind}".strip()), " ", say(key, lang)]) for kind, key in kinds.items()]
    begins = say("mask.legend_document" if masked else "mask.legend_documents", lang)
    shown += [join([tag("span", cls="box new-mark"), begins])]
    return tag("div", *(tag("span", part) for part in [*shown, say("mask.legend_symbols", lang)]), cls="legend")


# ---------------------------------------------------------------------------------------------------------------------
# Chips
# ---------------------------------------------------------------------------------------------------------------------


class Labels:
    """How an id is written on a chip, its bytes in hex, and ``ctl`` where it is a control token; found once an id.

    Parameters
    ----------
    tokenizer : AutoTokenizer
    """

    def __init__(self, tokenizer: AutoTokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, tuple[Html, str, str]] = {}

    def __call__(self, token: int) -> tuple[Html, str, str]:
        """Return label, bytes and kind of an id."""
        if token not in self._known:
            self._known[token] = self._look_up(token)
        return self._known[token]

    def _look_up(self, token: int) -> tuple[Html, str, str]:
        if not 0 <= token <= self._tokenizer.max_id:
            return tag("i", f"id {token}", cls="u"), "–", ""
        raw = self._tokenizer.token_bytes(token)
        control = token in self._tokenizer.control_ids
        label = _marker(self._tokenizer.token(token)) if control else _text(raw)
        return label, raw.hex(" ").upper() or "–", "ctl" if control else ""


class _Chips:
    """Draws ids in a row."""

    def __init__(self, tokenizer: AutoTokenizer, lang: str) -> None:
        self._labels, self._eos, self._lang = Labels(tokenizer), tokenizer.eos_token_id, lang

    def __call__(self, ids: Iterable[int], first: int, kinds: str) -> list[Html]:
        return [self._one(int(token), at, kinds) for at, token in enumerate(ids, first)]

    def _one(self, token: int, at: int, kinds: str) -> Html:
        label, raw, control = self._labels(token)
        # Padding may have the id of EOS and ends nothing.
        control += " eos" if token == self._eos and "pad" not in kinds else ""
        return chip(label, f"{control} {kinds}".strip(), say("mask.detail", self._lang, id=token, at=at, bytes=raw))


def _marker(name: str) -> Html:
    """A control token without its brackets, which every one of them has."""
    return escape(name[2:-2] if MARKER.fullmatch(name) else name)


def _text(raw: bytes) -> Html:
    """What a token decodes to; bytes that are no character of their own in a box."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return tag("i", raw.hex(" ").upper(), cls="u")
    return escape(text, blanks=text.isspace()) if text else tag("i", "–", cls="u")


# ---------------------------------------------------------------------------------------------------------------------
# Stored rows
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """What a stored row says of one place: which document (None: padding), and whether it is a target."""

    document: int | None
    target: bool


def row(
    ids: Sequence[int],
    mask: Sequence[bool] | None = None,
    *,
    tokenizer: AutoTokenizer,
    lengths: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    start: int = 0,
    lang: str = "en",
) -> Page:
    """Show a stored row, token by token.

    Parameters
    ----------
    ids : (n,) integers
        As stored, padding too.
    mask : (n,) bool or None
        Its loss mask. None: there is none, and every token of a document is a target.
    tokenizer : AutoTokenizer
    lengths : sequence of int, tokens, or None
        Its segments in order; what lies behind them is padding. None: one document, no padding.
    names : sequence of str or None
        Where each segment comes from, such as ``a.jsonl#L12``.
    start : int
        The first place drawn; at most 2,000 are.
    lang : str

    Raises
    ------
    BadParameter
        If mask or names do not fit, or the segments are longer than the row.
    """
    segments = [len(ids)] if lengths is None else [int(length) for length in lengths]
    _check_row(ids, mask, segments, names)
    places = _places(len(ids), mask, segments)
    groups = _stored(places[start : start + MOST], ids, start, mask is None, names, tokenizer, lang)
    drawn = chips(groups, say("mask.hint", lang), say("mask.row_label", lang))
    trained, padding = sum(place.target for place in places), len(ids) - sum(segments)
    counts = say(
        "mask.counts_row", lang, n=len(ids), trained=trained, documents=len(segments), padding=padding,
        share=percent(padding, len(ids)),
    )  # fmt: skip
    stop = min(start + MOST, len(ids))
    part = start > 0 or stop < len(ids)
    cut = tag("p", say("mask.span", lang, start=start, stop=stop - 1, all=len(ids)), cls="dim small") if part else ""
    box = card(
        say("mask.row_title", lang), tag("p", counts, cls="dim small"), _legend(lang, mask is not None), drawn, cut
    )
    return Page(snippet(box, lang), f"row: {counts}" if lang == "en" else counts)


def _check_row(
    ids: Sequence[int], mask: Sequence[bool] | None, segments: Sequence[int], names: Sequence[str] | None
) -> None:
    if mask is not None and len(mask) != len(ids):
        raise BadParameter(f"widgets/mask: {len(ids)} ids, but the mask has {len(mask)} entries")
    if sum(segments) > len(ids):
        raise BadParameter(f"widgets/mask: segments of {sum(segments)} tokens in a row of {len(ids)}")
    if names is not None and len(names) != len(segments):
        raise BadParameter(f"widgets/mask: {len(segments)} segments, but {len(names)} names")


def _places(n: int, mask: Sequence[bool] | None, segments: Sequence[int]) -> list[_Place]:
    owners: list[int | None] = [at for at, length in enumerate(segments) for _ in range(length)]
    owners += [None] * (n - len(owners))
    targets = [owner is not None for owner in owners] if mask is None else [bool(flag) for flag in mask]
    return [_Place(owner, target) for owner, target in zip(owners, targets, strict=True)]


def _stored(
    places: Sequence[_Place], ids: Sequence[int], at: int, unmasked: bool, names: Sequence[str] | None,
    tokenizer: AutoTokenizer, lang: str,
) -> Iterator[Group]:  # fmt: skip
    draw, before = _Chips(tokenizer, lang), None
    for place, members in groupby(places):
        n = sum(1 for _ in members)
        kinds, group = _kinds(place, unmasked)
        if place.document != before and place.document is not None:
            group = f"new {group}"
        yield *_told(place, unmasked, names, lang), draw(ids[at : at + n], at, kinds), group.strip()
        at, before = at + n, place.document


def _kinds(place: _Place, unmasked: bool) -> tuple[str, str]:
    """The classes of the chips of a run, and of the run: colours tell documents apart where no mask needs them."""
    if place.document is None:
        return ("pad on" if place.target else "pad"), ""
    if unmasked:
        return "", f"doc o{place.document % COLOURS}"
    return ("on" if place.target else ""), ""


def _told(place: _Place, unmasked: bool, names: Sequence[str] | None, lang: str) -> tuple[str, str]:
    """The heading and the sentence of a run of stored tokens."""
    verdict = say("mask.yes" if place.target else "mask.no", lang)
    if place.document is None:
        return say("padding", lang), f"{verdict} {say('mask.stored_padding', lang)}"
    name = names[place.document] if names else "–"
    reason = "mask.stored_all" if unmasked else "mask.stored_yes" if place.target else "mask.stored_no"
    return say("mask.stored_document", lang, at=place.document, name=name), f"{verdict} {say(reason, lang)}"
