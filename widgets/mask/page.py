"""Tokens as chips, coloured by loss, each with the sentence that says why it is or is not trained.

trained   bold, underlined       context   plain
control   boxed                  padding   hatched

⟦im▁start⟧user ↵ 你好 ⟦im▁end⟧ ↵ ⟦im▁start⟧assistant ↵ **Hi** **!** ⟦**im▁end**⟧ ↵
─────────────────────────────────────────────────────────────────────────────────
id 3 · position 22 · bytes EF BD 9C …
turn 1 (assistant) · stop: where the turn ends
Trained. The model must learn to write the token it stops at, or its answers never end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from prep_lib.chat.strategy import Piece
from prep_lib.errors import BadParameter
from prep_lib.markup import Html, Page, card, chip, chips, code, escape, fold, join, note, percent, snippet, table, tag
from prep_lib.special import MARKER
from prep_lib.words import say
from widgets.mask.state import Said, State, processor_type, record, shown, texts, unsaved, used, work

if TYPE_CHECKING:
    from prep_lib.tokens.tokenizer import AutoTokenizer

#: Tokens drawn at once: more would make a notebook's output heavy and nobody reads them.
MOST = 2_000

Group = tuple[str, str, list[Html], str]


def page(state: State) -> str:
    """Return the whole widget as HTML; the same live and in a report."""
    lang = state.lang
    head = [tag("h1", say("mask.title", lang)), _sub(state)]
    if record(state) is None:
        return snippet(join([*head, note("warn", say("mask.no_records", lang))]), lang)
    result = work(state)
    said = texts(state)
    remarks = [note("bad", result.problem)] if result.problem else []
    remarks += [note("bad", say("mask.dropped", lang, reason=result.dropped))] if result.dropped else []
    remarks += [note("warn", text) for text in result.warned]
    rows = [_tokens(state, key, pieces, said) for key, pieces in result.sequences]
    right = tag("div", *remarks, _literals(state, said), *rows)
    body = tag("div", tag("div", _talk(said, lang), _texts(state)), right, cls="two")
    return snippet(join([*head, _unsaved(state), body]), lang)


def _sub(state: State) -> Html:
    at, n = (state.index + 1, len(state.records)) if state.records else (0, 0)
    strategy, name = "–" if _plain(state) else state.strategy, state.tokenizer.describe()["name"]
    return tag("p", say("mask.sub", state.lang, strategy=strategy, at=at, n=n, tokenizer=name), cls="sub")


def _plain(state: State) -> bool:
    """Whether the record is a text without turns: no strategy has a say in it."""
    return processor_type(record(state) or {}) == "pt"


def _unsaved(state: State) -> Html:
    lines = unsaved(state)
    return join([note("warn", say("differs", state.lang)), code(lines)]) if lines else Html()


def _talk(said: Iterable[Said], lang: str) -> Html:
    turns = [_turn(one, lang) for one in said]
    return card(say("mask.conversation", lang), tag("div", *turns, cls="talk"))


def _turn(one: Said, lang: str) -> Html:
    on = one.role in ("assistant", "document") and not one.context
    name = say("mask.is_trained", lang, role=one.role) if on else one.role
    return tag("div", tag("small", name), escape(one.text, breaks=True), cls="turn on" if on else "turn")


def _texts(state: State) -> Html:
    """What the strategy writes around the turns, changed parameters with a star."""
    lang, changed = state.lang, dict(state.params)
    told = {} if _plain(state) else used(state)
    rows = [(f"★ {name}" if name in changed else name, _value(value)) for name, value in told.items()]
    grid = table([say("mask.parameter", lang), say("mask.value", lang)], rows, words=2)
    return card("", fold(say("mask.texts", lang), grid)) if rows else Html()


def _value(value: object) -> Html:
    return tag("code", escape(shown(value), blanks=True) if isinstance(value, str) else repr(value))


def _literals(state: State, said: Iterable[Said]) -> Html:
    names = dict.fromkeys(name for one in said for name in state.tokenizer.literal_specials(one.text))
    return note("warn", say("mask.literal", state.lang, names=", ".join(names))) if names else Html()


def _tokens(state: State, key: str, pieces: Sequence[Piece], said: Sequence[Said]) -> Html:
    lang, control = state.lang, state.tokenizer.control_ids
    ids = [token for piece in pieces for token in piece.ids]
    trained = sum(len(piece.ids) for piece in pieces if piece.trained)
    counts = say(
        "mask.counts", lang, n=len(ids), trained=trained, share=percent(trained, len(ids)),
        control=sum(token in control for token in ids),
    )  # fmt: skip
    title = say("mask.tokens", lang) if key == "sequence" else f"{say('mask.tokens', lang)} · {key}"
    drawn = chips(_explained(state, pieces, said), say("mask.hint", lang), say("mask.row_label", lang))
    cut = tag("p", say("mask.first", lang, n=MOST, all=len(ids)), cls="dim small") if len(ids) > MOST else ""
    return card(title, tag("p", counts, cls="dim small"), _legend(lang), drawn, cut)


def _legend(lang: str, stored: bool = False) -> Html:
    kinds = {"on": "mask.legend_trained", "": "mask.legend_context", "ctl": "mask.legend_control"}
    kinds |= {"pad": "mask.legend_padding"} if stored else {}
    word = say("mask.legend_word", lang)
    shown = [join([tag("b", word, cls=f"chip {kind}".strip()), " ", say(key, lang)]) for kind, key in kinds.items()]
    shown += [join([tag("span", cls="box new-mark"), say("mask.legend_document", lang)])] if stored else []
    return tag("div", *(tag("span", part) for part in [*shown, say("mask.legend_symbols", lang)]), cls="legend")


# ---------------------------------------------------------------------------------------------------------------------
# Why
# ---------------------------------------------------------------------------------------------------------------------


def _explained(state: State, pieces: Sequence[Piece], said: Sequence[Said]) -> Iterator[Group]:
    """A group a piece: its chips, which turn and part it is, and why."""
    lang, draw = state.lang, _Chips(state.tokenizer, state.lang)
    # Of a preference pair both answers follow the same question: turn 1 is whichever is shown.
    at, before = 0, -1
    for piece in pieces:
        if at >= MOST:
            return
        one = said[piece.turn]
        heading = say("mask.where", lang, turn=piece.turn, role=one.role, part=say(f"mask.part_{piece.part}", lang))
        sentence = f"{say('mask.yes' if piece.trained else 'mask.no', lang)} {why(piece, one, lang)}"
        ids = piece.ids[: MOST - at]
        yield heading, sentence, draw(ids, at, "on" if piece.trained else ""), "line" if piece.turn != before else ""
        at, before = at + len(ids), piece.turn


def why(piece: Piece, said: Said, lang: str = "en") -> str:
    """Return the sentence that says why the tokens of a piece are or are not trained.

    Parameters
    ----------
    piece : Piece
    said : Said
        The text of its turn.
    lang : str

    Examples
    --------
    >>> why(Piece([3], True, 1, "stop"), Said("response", "assistant", "Hi!"))
    'The model must learn to write the token it stops at, or its answers never end.'
    """
    return say(f"mask.why_{_reason(piece, said)}", lang, role=said.role)


def _reason(piece: Piece, said: Said) -> str:
    if said.role == "document":
        return "eos" if piece.part == "stop" else "document"
    if piece.trained:
        return {"start": "opening", "content": "answer", "stop": "stop", "after": "after"}[piece.part]
    if said.role != "assistant":
        return {"start": "open", "content": "read"}.get(piece.part, "closed")
    if piece.part == "start":
        return "prompt"
    if said.context:
        return "context_answer"
    if not said.text:
        return "silent"
    return "behind" if piece.part == "after" else "untold"


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
        self._labels, self._lang = Labels(tokenizer), lang

    def __call__(self, ids: Iterable[int], first: int, kinds: str) -> list[Html]:
        return [self._one(int(token), at, kinds) for at, token in enumerate(ids, first)]

    def _one(self, token: int, at: int, kinds: str) -> Html:
        label, raw, control = self._labels(token)
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
    box = card(say("mask.row_title", lang), tag("p", counts, cls="dim small"), _legend(lang, stored=True), drawn, cut)
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
        new = "new" if place.document != before and place.document is not None else ""
        kinds = ("pad " if place.document is None else "") + ("on" if place.target else "")
        yield *_told(place, unmasked, names, lang), draw(ids[at : at + n], at, kinds.strip()), new
        at, before = at + n, place.document


def _told(place: _Place, unmasked: bool, names: Sequence[str] | None, lang: str) -> tuple[str, str]:
    """The heading and the sentence of a run of stored tokens."""
    verdict = say("mask.yes" if place.target else "mask.no", lang)
    if place.document is None:
        return say("padding", lang), f"{verdict} {say('mask.stored_padding', lang)}"
    name = names[place.document] if names else "–"
    reason = "mask.stored_all" if unmasked else "mask.stored_yes" if place.target else "mask.stored_no"
    return say("mask.stored_document", lang, at=place.document, name=name), f"{verdict} {say(reason, lang)}"
