"""What a vocabulary holds, its longest and oddest tokens; and texts as their tokens, a few of each language.

longest   ␣documentation   id 4,711   14 characters   used 92 times
oddest    half characters  ⟦E7⟧ ⟦8C⟧ …     blanks  ⟦····⟧     never used here  ⟦␣Zebra⟧

zh        ⟦茶⟧⟦园⟧⟦在⟧⟦清⟧⟦E6 98⟧⟦8E⟧ …     81 tokens for 62 characters
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from prep_lib.errors import BadParameter
from prep_lib.markup import ODD, Html, Page, attribute, card, join, number, percent, snippet, table, tag
from prep_lib.words import say
from widgets.mask.page import Labels

if TYPE_CHECKING:
    from prep_lib.tokens.tokenizer import AutoTokenizer

#: Tokens in the list of the longest, examples of an odd kind and their characters, tokens of a text, languages.
LONGEST, EXAMPLES, CHARACTERS, DRAWN, LANGUAGES = 12, 14, 160, 60, 12

#: Kinds of odd tokens by what their text is; a line feed or a tab is a blank and not invisible.
_KINDS: Mapping[str, re.Pattern[str]] = {
    "blanks": re.compile(r"\s+"),
    "digits": re.compile(r"\s?\d{2,}"),
    "signs": re.compile(r"\s?[^\w\s]{4,}"),
    "invisible": re.compile(f".*[{ODD}].*", re.DOTALL),
}


def vocabulary(tokenizer: AutoTokenizer, ids: np.ndarray | None = None, lang: str = "en") -> Page:
    """Show the longest tokens, and those of odd kinds.

    Parameters
    ----------
    tokenizer : AutoTokenizer
    ids : (n,) integers or None
        Of some texts: how often each token occurs in them. None: nobody counted.
    lang : str
    """
    used = None if ids is None else np.bincount(np.asarray(ids, np.int64), minlength=tokenizer.max_id + 1)
    raw = _contents(tokenizer)
    said = say("tokens.sum", lang, n=tokenizer.size, control=len(tokenizer.control_ids), name=tokenizer.name)
    if used is not None:
        said += say("tokens.sum_used", lang, n=int((used > 0).sum()), share=percent(int((used > 0).sum()), len(raw)))
    draw = Labels(tokenizer)
    parts = [tag("h1", say("tokens.title", lang)), tag("p", said, cls="sub")]
    parts += [_longest(raw, used, draw, lang), _oddest(tokenizer, raw, used, draw, lang)]
    return Page(snippet(join(parts), lang), said)


def _contents(tokenizer: AutoTokenizer) -> dict[int, bytes]:
    """The bytes of each id that is in the vocabulary, which may have holes."""
    found = {}
    for token in range(tokenizer.max_id + 1):
        with suppress(BadParameter):
            found[token] = tokenizer.token_bytes(token)
    return found


def _longest(raw: Mapping[int, bytes], used: np.ndarray | None, draw: Labels, lang: str) -> Html:
    # Rules of a hundred dashes are told as odd ones.
    texts = {token: text for token, text in _texts(raw, draw).items() if any(map(str.isalpha, text))}
    first = sorted(texts, key=lambda token: (-len(texts[token]), token))[:LONGEST]
    head = [say(f"tokens.{name}", lang) for name in ("token", "id", "characters", "bytes")]
    rows: list[list[object]] = [[_chip(token, draw), str(token), len(texts[token]), len(raw[token])] for token in first]
    if used is not None:
        head, rows = (
            [*head, say("tokens.used", lang)],
            [[*row, int(used[token])] for row, token in zip(rows, first, strict=True)],
        )
    return card(say("tokens.longest", lang), table(head, rows))


def _texts(raw: Mapping[int, bytes], draw: Labels) -> dict[int, str]:
    """The tokens that are whole characters, control tokens apart."""
    texts = {}
    for token, content in raw.items():
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            continue
        if not draw(token)[2]:
            texts[token] = text
    return texts


def _oddest(
    tokenizer: AutoTokenizer, raw: Mapping[int, bytes], used: np.ndarray | None, draw: Labels, lang: str
) -> Html:
    texts = _texts(raw, draw)
    found: dict[str, list[int]] = {"control": sorted(tokenizer.control_ids & raw.keys())}
    found["halves"] = [token for token in raw if token not in texts and token not in tokenizer.control_ids]
    for kind, pattern in _KINDS.items():
        found[kind] = [token for token, text in texts.items() if pattern.fullmatch(text)]
    found["invisible"] = [token for token in found["invisible"] if texts[token].strip()]
    if used is not None:
        found["unused"] = [token for token in texts if not used[token]]
    head = [say(f"tokens.{name}", lang) for name in ("kind", "examples", "ids")]
    rows = [(say(f"tokens.{kind}", lang), _some(members, texts, draw), len(members)) for kind, members in found.items()]
    return card(say("tokens.oddest", lang), table(head, rows, words=2))


def _some(members: Sequence[int], texts: Mapping[int, str], draw: Labels) -> Html:
    """The longest of a kind."""
    first = sorted(members, key=lambda token: (-len(texts.get(token, "")), token))[:EXAMPLES]
    room = np.cumsum([len(texts.get(token, "")) for token in first]) <= CHARACTERS
    shown = [token for at, token in enumerate(first) if not at or room[at]]
    return join([_chip(token, draw) for token in shown]) if shown else tag("span", "–")


def _chip(token: int, draw: Labels, alt: bool = False) -> Html:
    label, raw, control = draw(token)
    kinds = f"chip {control}{' alt' if alt else ''}".strip()
    return Html(f'<b class="{kinds}" title="{attribute(f"id {token} · {raw}")}">{label}</b>')


# ---------------------------------------------------------------------------------------------------------------------
# Texts
# ---------------------------------------------------------------------------------------------------------------------


def texts(
    tokenizer: AutoTokenizer, documents: Iterable[tuple[str, str | None, str]], *, each: int = 2, lang: str = "en"
) -> Page:
    """Show how some texts are cut into tokens.

    Parameters
    ----------
    tokenizer : AutoTokenizer
    documents : iterable of (source, language, text)
        As `prep_lib.tokens.stream.fertility` takes them; the first ones of each language are drawn.
    each : int
        How many of each language.
    lang : str
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for source, language, text in documents:
        mine = groups.setdefault(language or say("tokens.unknown", lang), [])
        if len(mine) < each:
            mine.append((source, text))
    draw = Labels(tokenizer)
    cards = [
        card(language, *(_text(tokenizer, source, text, draw, lang) for source, text in mine))
        for language, mine in list(groups.items())[:LANGUAGES]
    ]
    said = say("tokens.texts", lang, n=sum(map(len, groups.values())), languages=len(groups))
    return Page(snippet(join([tag("p", say("tokens.texts_note", lang), cls="dim small"), *cards]), lang), said)


def _text(tokenizer: AutoTokenizer, source: str, text: str, draw: Labels, lang: str) -> Html:
    ids = tokenizer.encode(text)
    size = len(text.encode("utf-8", "surrogatepass"))
    counts = say(
        "tokens.text", lang, source=source, tokens=len(ids), characters=len(text),
        bytes=number(size / len(ids) if ids else None, 2),
    )  # fmt: skip
    shown = join(_chip(token, draw, bool(at % 2)) for at, token in enumerate(ids[:DRAWN]))
    rest = tag("span", say("tokens.more", lang, n=len(ids) - DRAWN), cls="dim small") if len(ids) > DRAWN else ""
    return tag("div", tag("p", counts, cls="dim small"), tag("p", shown, " ", rest), cls="cut-text")
