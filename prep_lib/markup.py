"""Escape, chips, bars, tables and the one stylesheet: HTML strings only.

    "a<b\\n"        ──escape──▶  a&lt;b↵        every string is data until we made it ourselves
    Html("<b>")    ──escape──▶  <b>            the type says who wrote it

    document ─ title, policy, STYLE            a page that asks nobody for anything
    └ body ─ card ─ table, bar, chips, fold, note

The same input gives the same bytes: no random ids, no clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

#: A page may use its own style and embedded pictures: no script, no font, no request.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'none'"

#: Characters that are invisible, move the text around them, or cannot be written as UTF-8.
ODD = (
    "\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ue000-\uf8ff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
)
#: Blanks that are not the one on the space bar; boxed only where blanks are shown.
BLANKS = " \xa0\u1680\u2000-\u200a\u202f\u205f\u3000"

_SYMBOLS = {"\n": "↵", "\t": "→", " ": "·"}
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
_TEXT = re.compile(f"[&<>\"'{ODD}]")
_TEXT_AND_BLANKS = re.compile(f"[&<>\"'{ODD}{BLANKS}]")


class Html(str):
    """A string we made ourselves; every other string is data and gets escaped.

    Examples
    --------
    >>> escape("<b>"), escape(Html("<b>"))
    ('&lt;b&gt;', '<b>')
    """

    __slots__ = ()


@cache
def _shown(character: str) -> str:
    if character in _ENTITIES:
        return _ENTITIES[character]
    symbol = _SYMBOLS.get(character)
    return f'<i class="s">{symbol}</i>' if symbol else f'<i class="u">U+{ord(character):04X}</i>'


@cache
def _named(character: str) -> str:
    return _ENTITIES.get(character) or _SYMBOLS.get(character) or f"[U+{ord(character):04X}]"


def escape(text: object, *, blanks: bool = False, breaks: bool = False) -> Html:
    """Return `text` as it may stand between two tags.

    Parameters
    ----------
    text : object
        `Html` is returned as it is, anything else is turned into a string and escaped. Control and bidirectional
        characters become symbols: ``↵`` line feed, ``→`` tab, a box with ``U+202E`` for the others.
    blanks : bool
        Show a blank as ``·``.
    breaks : bool
        Break the line behind ``↵`` (inside an element with ``white-space: pre-wrap``).

    Examples
    --------
    >>> escape("</script>\\u202e")
    '&lt;/script&gt;<i class="u">U+202E</i>'
    >>> escape("a b\\n", blanks=True)
    'a<i class="s">·</i>b<i class="s">↵</i>'
    """
    if isinstance(text, Html):
        return text
    pattern = _TEXT_AND_BLANKS if blanks else _TEXT
    shown = pattern.sub(lambda match: _shown(match[0]), str(text))
    return Html(shown.replace("↵</i>", "↵</i>\n")) if breaks else Html(shown)


def attribute(text: object) -> str:
    """Return `text` as it may stand between the quotes of an attribute, odd characters named as ``[U+202E]``.

    Examples
    --------
    >>> attribute('" onclick="x')
    '&quot; onclick=&quot;x'
    """
    return _TEXT.sub(lambda match: _named(match[0]), str(text))


def tag(name: str, *children: object, **attributes: object) -> Html:
    """Return one element; children that are not `Html` are escaped.

    Parameters
    ----------
    name : str
    *children : object
    **attributes : object
        ``cls`` is the class, ``_`` in a name becomes ``-``; None and False leave it out, True writes it bare.

    Examples
    --------
    >>> tag("td", "a<b", cls="n", title=None)
    '<td class="n">a&lt;b</td>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def _attribute(key: str, value: object) -> str:
    name = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{attribute(value)}"'


def join(parts: Iterable[object], between: str = "") -> Html:
    """Escape what is not `Html` and put it in a row.

    Examples
    --------
    >>> join(["a<", tag("b", "c")], " · ")
    'a&lt; · <b>c</b>'
    """
    return Html(between.join(escape(part) for part in parts))


class Shown(str):
    """A number as a person reads it, which remembers what it is: a file of numbers wants no rounding.

    Examples
    --------
    >>> Shown("12.5 %", 0.125).value
    0.125
    """

    value: float | int | None

    def __new__(cls, text: str, value: float | int | None) -> Shown:
        """Return `text`, which stands for `value`."""
        shown = super().__new__(cls, text)
        shown.value = value if value is None or isinstance(value, int) else float(value)
        return shown


def number(value: float | int | None, digits: int = 1) -> str:
    """Write a number for a person; None, a number nobody has, is a dash.

    Examples
    --------
    >>> number(48120), number(0.25), number(None)
    ('48,120', '0.2', '–')
    """
    if value is None:
        return "–"
    return Shown(f"{value:,.{digits}f}" if isinstance(value, float) else f"{value:,}", value)


def percent(part: float | None, whole: float = 1.0, digits: int = 1) -> str:
    """Write a share in percent; of nothing, or of None, it is a dash.

    Examples
    --------
    >>> percent(1, 8), percent(0, 0)
    ('12.5 %', '–')
    """
    return Shown(f"{100 * part / whole:,.{digits}f} %", part / whole) if part is not None and whole else "–"


def duration(seconds: float) -> str:
    """Return a time as a person says it.

    Examples
    --------
    >>> duration(4.2), duration(400), duration(20000)
    ('4 s', '7 min', '5.6 h')
    """
    if seconds < 120:
        return Shown(f"{seconds:.0f} s", seconds)
    return Shown(f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h", seconds)


def size(count: float) -> str:
    """Return a size as a person says it.

    Examples
    --------
    >>> size(45_600), size(2_500_000), size(3 * 2**30)
    ('46 kB', '2 MB', '3.2 GB')
    """
    if count < 1e6:
        return Shown(f"{count / 1e3:,.0f} kB", count)
    return Shown(f"{count / 1e6:,.0f} MB" if count < 1e9 else f"{count / 1e9:,.1f} GB", count)


def table(
    head: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    caption: str = "",
    best: int | None = None,
    words: int = 1,
) -> Html:
    """Return a table, words to the left, numbers to the right; a wide one scrolls by itself.

    Parameters
    ----------
    head : sequence
        One title a column.
    rows : iterable of sequences
        Cells; an int or float is written by `number`.
    caption : str
        What the table says, read aloud before it; empty for none.
    best : int or None
        The row to mark with a star.
    words : int
        How many of the first columns hold words.

    Examples
    --------
    >>> "<td>1,200</td>" in table(["reason", "documents"], [("too_long", 1200)])
    True
    """
    titles = join(tag("th", title, scope="col", cls=_side(at, words)) for at, title in enumerate(head))
    lines = join(_row(cells, at == best, words) for at, cells in enumerate(rows))
    said = tag("caption", caption) if caption else ""
    grid = tag("table", Html(said), tag("thead", tag("tr", titles)), tag("tbody", lines), cls="grid")
    # What scrolls must be reached by the keyboard, too.
    return tag("div", grid, cls="wide", tabindex=0, role="group", aria_label=caption or None)


def _side(column: int, words: int) -> str | None:
    return "word" if column < words else None


def _row(cells: Sequence[object], marked: bool, words: int) -> Html:
    shown = [number(cell) if isinstance(cell, int | float) else cell for cell in cells]
    if marked:
        shown[0] = join(("★ ", shown[0]))
    drawn = join(
        tag("td", cell, cls=_side(at, words), data_v=_exact(cell, at < words)) for at, cell in enumerate(shown)
    )
    return tag("tr", drawn, cls="best" if marked else None)


def _exact(cell: object, word: bool) -> str | None:
    """The number a cell stands for where its column and text do not say it; empty: a text, though it looks like one."""
    value, read = getattr(cell, "value", None), None if word else plain(str(cell))
    if value is None:
        return None if read is None else ""
    return None if read == value else repr(int(value) if value == value // 1 else value)


def plain(text: str) -> float | None:
    """Return the number a text is, as `number` and `percent` write it; None if it is something else.

    Examples
    --------
    >>> plain("1,200"), plain("12.5 %"), plain("-3.25"), plain("007"), plain("1,2")
    (1200.0, 0.125, -3.25, None, None)
    """
    found = _NUMBER.fullmatch(text.strip())
    # Not divided by 100: 35.2 % is 0.352, to the last digit.
    return float(found[1].replace(",", "") + ("e-2" if found[2] else "")) if found else None


#: A number as a person reads it. What begins with a nought is a name, such as 007.
_NUMBER = re.compile(r"(-?(?:0|[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d*)(?:\.\d+)?)( ?%)?")


class Part(NamedTuple):
    """A part of a bar.

    Parameters
    ----------
    kind : str
        A class of the stylesheet with a colour and a pattern: ``kept``, ``dropped``, ``failed``, ``hatch``, ``d0`` …
        ``d5``.
    size : float
    text : str
        What pointing at it says.
    label : str
        What is written in it.
    """

    kind: str
    size: float
    text: str
    label: str = ""


def bar(parts: Iterable[Part], whole: float, label: str) -> Html:
    """Return a bar of parts laid end to end.

    Parameters
    ----------
    parts : iterable of Part
    whole : float
        The size that fills the width; 0 draws an empty bar.
    label : str
        The numbers in words, for whoever does not see the bar.

    Examples
    --------
    >>> bar([Part("kept", 1, "1")], 2, "1 of 2")
    '<div class="bar" role="img" aria-label="1 of 2"><span class="kept" style="width:50%" title="1"></span></div>'
    """
    drawn = join(
        tag("span", part.label, cls=part.kind, style=f"width:{100 * part.size / whole:.4g}%", title=part.text)
        for part in parts
        if part.size and whole
    )
    return tag("div", drawn, cls="bar", role="img", aria_label=label)


def chip(label: object, kinds: str, detail: str, name: str = "") -> Html:
    """Return one token: its text, and the line a pointer or the keyboard brings up.

    Parameters
    ----------
    label : object
    kinds : str
        Classes: ``on`` trained, ``ctl`` control, ``pad`` padding, none of them context.
    detail : str
        Short: it is repeated for every token.
    name : str
        What a link jumps to: letters, digits and ``-`` only. Empty: nothing does.
    """
    # One f-string, not tag(): a page may hold thousands of these, and is drawn while somebody types.
    target = f" id={name}" if name else ""
    return Html(f'<b class="{("chip " + kinds).strip()}" tabindex=0{target}>{escape(label)}<i>{escape(detail)}</i></b>')


def chips(groups: Iterable[tuple[str, str, Sequence[Html], str]], hint: str, label: str) -> Html:
    """Return tokens in a row, and under them a panel that says why, without a script.

    Parameters
    ----------
    groups : iterable of (heading, sentence, chips, kind)
        Neighbours that share one explanation hold it once. `kind` is ``line`` to begin a new line, ``new`` to draw a
        mark where a document begins, or empty.
    hint : str
        What stands in the panel while no token is chosen.
    label : str
        What the row is, for a screen reader.

    Notes
    -----
    Every chip carries its own line and every group its sentence; both are placed on the panel, and the style shows
    those of the chip under the pointer, or of the focused one. So it works in a report, where no script may run.
    """
    drawn = join(_group(*group) for group in groups)
    row = tag("div", drawn, cls="chips", role="list", aria_label=label)
    return tag("div", row, tag("div", hint, cls="hint"), cls="tokens")


def _group(heading: str, sentence: str, members: Sequence[Html], kind: str) -> Html:
    why = tag("span", tag("em", heading), " ", sentence, cls="why")
    return tag("span", join(members), why, cls=kind or None, role="listitem", title=f"{heading} · {sentence}")


def runs(groups: Iterable[tuple[object, str, Sequence[Html], str]], every: str, hint: str, label: str) -> Html:
    """Return tokens in runs, beside each the reason its tokens share: nobody has to point at one to read it.

    Parameters
    ----------
    groups : iterable of (heading, sentence, chips, kind)
        `kind` is ``on`` where the run is trained, ``pad`` where it is cut off, or empty.
    every : str
        What opens the line of every token at once, without a script.
    hint : str
        What stands at the bottom while no token is chosen; the line of the chosen one covers it.
    label : str
        What the list is, for a screen reader.
    """
    drawn = join(
        tag("div", tag("div", tag("b", heading), sentence, cls="said"), tag("div", *members), cls=f"run {kind}".strip(),
            role="listitem")
        for heading, sentence, members, kind in groups
    )  # fmt: skip
    opener = tag("details", tag("summary", every), cls="every")
    row = tag("div", drawn, cls="runs", role="list", aria_label=label)
    return tag("div", opener, row, tag("div", hint, cls="under"), cls="told")


def fold(summary: object, *children: object, opened: bool = False) -> Html:
    """Return something to open by a click, without a script."""
    return tag("details", tag("summary", summary), *children, open=opened)


def code(lines: str) -> Html:
    """Return text in a box as it stands, its line feeds kept as such."""
    return tag("pre", join(lines.split("\n"), "\n"))


def card(title: object, *children: object, cls: str = "") -> Html:
    """Return a box with a small title; an empty title leaves it out."""
    return tag("section", tag("h2", title) if title else Html(), *children, cls=f"card {cls}".strip())


def note(kind: str, *text: object) -> Html:
    """Return one remark; `kind` is ``bad``, ``warn`` or ``ok``, told by mark and colour."""
    mark = {"bad": "✗", "warn": "!", "ok": "✓"}[kind]
    return tag("p", tag("b", mark), tag("span", *text), cls=f"note {kind}", role="alert" if kind == "bad" else None)


@dataclass(frozen=True, repr=False)
class Page:
    """What a notebook cell shows of a page without controls, and the one line it says elsewhere."""

    html: str
    said: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"<{self.said}>"


def snippet(body: object, lang: str = "en") -> Html:
    """Return a page to stand inside another one: a notebook's output, a report."""
    style = Html(f"<style>{STYLE}</style>")
    return tag("div", style, body, cls="prep", lang=_tongue(lang))


def document(title: str, body: object, lang: str = "en") -> str:
    """Return a whole page, complete without network and without script.

    Examples
    --------
    >>> "script-src 'none'" in document("a", Html("<p>b</p>"))
    True
    """
    meta = join(
        Html(f"<meta {content}>\n")
        for content in (
            'charset="utf-8"',
            f'http-equiv="Content-Security-Policy" content="{POLICY}"',
            'name="viewport" content="width=device-width,initial-scale=1"',
            'name="color-scheme" content="light dark"',
        )
    )
    head = tag("head", meta, tag("title", Html(attribute(title))), Html(f"\n<style>{STYLE}</style>"))
    page = tag("body", tag("main", body, cls="prep"), cls="prep-page")
    return "<!doctype html>\n" + tag("html", head, Html("\n"), page, lang=_tongue(lang)) + "\n"


def _tongue(lang: str) -> str:
    """The tag of a language as HTML wants it: it chooses between Chinese and Japanese shapes of a character."""
    return "zh-CN" if lang == "zh" else lang


# Blue against amber keeps apart for every kind of colour-blind eye; the six document colours are Paul Tol's "bright".
_LIGHT = (
    "--bg:#fff;--ink:#1b2330;--dim:#566173;--line:#d5dbe5;--card:#f7f8fb;--ctx:#e9edf3;--on:#0a4fa3;--on-bg:#d9e9ff;"
    "--ctl:#7a4a00;--ctl-bg:#fff0d1;--pad:#687283;--bad:#9c1c16;--bad-bg:#fde5e2;--ok:#0b5d46;--ok-bg:#daf1e7;"
    "--kept:#2f6fb7;--dropped:#e8a33d;--failed:#b3372b;--mark:#fff;color-scheme:light"
)
_DARK = (
    "--bg:#14181f;--ink:#e6eaf1;--dim:#a0abbc;--line:#333d4c;--card:#1a2029;--ctx:#29323f;--on:#a9d0ff;--on-bg:#173a66;"
    "--ctl:#ffd28a;--ctl-bg:#43310f;--pad:#8f9aab;--bad:#ffb8b2;--bad-bg:#4a1d1b;--ok:#8ee3c2;--ok-bg:#123c2e;"
    "--kept:#5b9be6;--dropped:#d9952f;--failed:#e0695c;--mark:#14181f;color-scheme:dark"
)
_RULES = """
.prep{
 --sans:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Noto Sans CJK SC","PingFang SC",sans-serif;
 --mono:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Noto Sans Mono CJK SC",monospace;
 display:block;box-sizing:border-box;color:var(--ink);background:var(--bg);font:15px/1.5 var(--sans);
 white-space:normal;overflow-wrap:anywhere;text-align:left;container-type:inline-size}
.prep *{box-sizing:border-box}
.prep-page{margin:0}
.prep-page>.prep{max-width:1180px;margin:0 auto;padding:20px;min-height:100vh}
.prep h1{font:650 20px/1.3 var(--sans);margin:0 0 2px}
.prep h2{font:650 14px/1.4 var(--sans);color:var(--dim);margin:0 0 8px}
.prep h3{font:650 14px/1.4 var(--sans);margin:16px 0 6px}
.prep p{margin:0 0 8px}
.prep p.csv{margin:4px 0 10px}
.prep .dim{color:var(--dim)}
.prep p.sub{color:var(--dim);margin-bottom:14px}
.prep ul.plain{list-style:none;padding-left:14px}
.prep code,.prep pre{font-family:var(--mono);font-size:13px}
.prep pre{margin:0 0 14px;padding:8px 10px;background:var(--bg);color:inherit;border:1px solid var(--line);
 border-radius:6px;white-space:pre-wrap}
.prep .card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px;margin:0 0 14px}
.prep .two{display:grid;grid-template-columns:minmax(220px,290px) minmax(0,1fr);gap:14px;align-items:start}
.prep .wide{overflow-x:auto}

.prep table.grid{border-collapse:collapse;table-layout:auto;width:100%;margin:0;color:inherit;
 font:13px/1.45 var(--sans);font-variant-numeric:tabular-nums}
.prep table.grid caption{caption-side:top;text-align:left;color:var(--dim);padding:0 8px 4px}
.prep table.grid tbody tr:nth-child(n){background:none}
.prep table.grid tbody tr:nth-child(n):hover{background:var(--ctx)}
.prep table.grid th:nth-child(n),.prep table.grid td:nth-child(n){text-align:right;vertical-align:top;
 padding:5px 8px;border:0;border-bottom:1px solid var(--line);max-width:none}
.prep table.grid td:not(.word),.prep table.grid td:first-child{white-space:nowrap}
.prep table.grid th.word:nth-child(n),.prep table.grid td.word:nth-child(n){text-align:left}
.prep table.grid th{color:var(--dim);font-weight:600;overflow-wrap:normal;word-break:keep-all}
.prep table.grid td.word{min-width:9ch}
.prep table.grid tr.best td{font-weight:700}
.prep table.dataframe{border-collapse:collapse;border:0;font:13px/1.45 var(--sans);font-variant-numeric:tabular-nums}
.prep table.dataframe th,.prep table.dataframe td{padding:5px 10px;border:0;border-bottom:1px solid var(--line);
 text-align:left;vertical-align:top}
.prep table.dataframe th{color:var(--dim);font-weight:600;overflow-wrap:normal;word-break:keep-all}
.prep details{margin:6px 0}
.prep summary{cursor:pointer;color:var(--dim);font-size:13px}
.prep :focus-visible{outline:2px solid var(--on);outline-offset:1px}

.prep .note{display:flex;gap:10px;border-radius:8px;padding:8px 10px;margin:0 0 10px;font-size:14px}
.prep .note.bad{background:var(--bad-bg);color:var(--bad)}
.prep .note.warn{background:var(--ctl-bg);color:var(--ctl)}
.prep .note.ok{background:var(--ok-bg);color:var(--ok)}
.prep i.s{font-style:normal;color:var(--dim)}
.prep i.u{font-style:normal;font-size:.75em;border:1px solid var(--dim);border-radius:3px;padding:0 2px;
 margin:0 1px;white-space:nowrap}

.prep .bar{display:flex;height:18px;background:var(--ctx);border-radius:3px;overflow:hidden}
.prep .bar>span{display:block;height:100%;min-width:1px}
.prep .kept.going{opacity:.6}
.prep .small{font-size:13px}
.prep .talk{max-height:340px;overflow-y:auto}
.prep .strip{display:grid;grid-template-columns:92px minmax(0,1fr) 56px;gap:8px;align-items:center;font-size:12px;
 margin:0 0 6px;font-variant-numeric:tabular-nums}
.prep .strip.file{grid-template-columns:minmax(120px,200px) minmax(0,1fr) 92px}
.prep .strip.file>:last-child{text-align:right}
.prep .strip .bar{height:20px;gap:1px}
.prep .strip .bar>span{color:#fff;font:11px/20px var(--sans);text-align:center;overflow:hidden;white-space:nowrap}
.prep .strip .bar>.d1,.prep .strip .bar>.d3,.prep .strip .bar>.d4{color:#14181f}
.prep .d-more{background:repeating-linear-gradient(90deg,#4477aa 0 2px,#66ccee 2px 4px)}
.prep .bar>.goes{border-right:3px dashed var(--ink)}
.prep .bar>.came{border-left:3px dashed var(--ink)}
.prep .ends{border-right:4px solid var(--ink)}
.prep .box.new-mark{width:6px;border-left:3px double var(--dim);border-radius:0}
.prep .box.cut-mark{border-right:3px dashed var(--ink);background:#4477aa}
.prep .kept{background-color:var(--kept)}
.prep .dropped{background:repeating-linear-gradient(45deg,var(--dropped) 0 5px,var(--mark) 5px 7px)}
.prep .failed{background:radial-gradient(circle,var(--mark) 1.4px,var(--failed) 1.9px) 0 0/7px 7px}
.prep .hatch{background:repeating-linear-gradient(45deg,transparent 0 4px,var(--line) 4px 6px)}
.prep .d0{background-color:#4477aa}.prep .d1{background-color:#ee6677}.prep .d2{background-color:#228833}
.prep .d3{background-color:#ccbb44}.prep .d4{background-color:#66ccee}.prep .d5{background-color:#aa3377}
.prep .stage{margin:0 0 14px}
.prep .stage:last-child{margin-bottom:0}
.prep .say{display:flex;flex-wrap:wrap;gap:0 12px;justify-content:space-between;font-size:13px;margin-bottom:3px;
 font-variant-numeric:tabular-nums}
.prep .sum{line-height:1.25;margin:10px 0 6px;font-variant-numeric:tabular-nums}
.prep .term{display:inline-block;text-align:center;margin:0 4px;vertical-align:top}
.prep .term small{display:block;font-size:12px;color:var(--dim)}
.prep .legend{display:flex;flex-wrap:wrap;gap:4px 16px;margin:0 0 10px;font-size:12px;color:var(--dim);
 align-items:center}
.prep .box{display:inline-block;width:22px;height:12px;border-radius:2px;vertical-align:-1px;margin-right:5px}
.prep .turn{border-left:3px solid var(--line);padding:1px 0 1px 10px;margin:0 0 8px;font-size:14px;
 white-space:pre-wrap}
.prep .turn.on{border-left-color:var(--on)}
.prep .turn small{display:block;font-size:12px;color:var(--dim);font-weight:600}

.prep .plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(215px,100%),1fr));gap:8px 18px}
.prep figure{margin:0}
.prep figcaption{font-size:13px;font-weight:600}
.prep svg.plot{display:block;width:100%;max-width:320px;height:auto;overflow:visible}
.prep details .wide{margin-top:10px}
.prep svg.swatch{display:inline-block;width:34px;vertical-align:-2px;margin-right:5px}
.prep .plot text{font:11px var(--sans);fill:var(--dim);font-variant-numeric:tabular-nums}
.prep .plot path{fill:none;stroke:var(--hue);stroke-width:2}
.prep .plot .mark{fill:var(--card);stroke-width:1.5}
.prep .plot .rule{stroke:var(--line);stroke-width:1}
.prep .plot .here{stroke:var(--dim);stroke-width:1;stroke-dasharray:2 3}
.prep svg.blocks{display:block;width:100%;max-width:260px;height:auto;border:1px solid var(--line)}
.prep .blocks path{fill:var(--doc,none);fill-opacity:.45;stroke:var(--doc,var(--line));vector-effect:non-scaling-stroke}
.prep .blocks text{fill:var(--ink);text-anchor:middle;font-family:var(--sans)}
.prep .a-concat{--hue:var(--on)}
.prep .a-best_fit{--hue:var(--bad)}.prep .a-best_fit .line{stroke-dasharray:7 3}
.prep .a-best_fit_split{--hue:var(--ok)}.prep .a-best_fit_split .line{stroke-dasharray:2 3}
.prep .a-one_row{--hue:var(--ctl)}.prep .a-one_row .line{stroke-dasharray:8 3 2 3}

.prep .chips{font:14px/1.5 var(--mono);max-height:390px;overflow-y:auto;padding:2px}
.prep .chip{font:400 14px/1.5 var(--mono);color:var(--ink);background:var(--ctx);border-radius:4px;padding:2px 1px;
 margin:2px 1px;border-bottom:2px solid transparent;white-space:pre-wrap;display:inline-block;max-width:100%}
.prep .chip.ctl{font-size:12px;color:var(--ctl);background:var(--ctl-bg);border:1px solid var(--ctl);padding:2px 4px}
.prep .chip.on{font-weight:700;color:var(--on);background:var(--on-bg);border-bottom:2px solid var(--on)}
.prep .chip.ctl.on{border:1px solid var(--on);border-bottom-width:3px}
.prep .chip.alt{background:var(--on-bg)}
.prep .cut-text{border-top:1px solid var(--line);padding-top:8px}
.prep .cut-text .chip{margin:1px 0;padding:1px}
.prep .chip.eos{color:var(--ok);background:var(--ok-bg);border:1px solid var(--ok)}
.prep .doc>.chip{border-bottom:3px solid var(--doc)}
.prep .doc>.chip.eos{border-width:1px 4px 3px 1px}
.prep .o0{--doc:#4477aa}.prep .o1{--doc:#ee6677}.prep .o2{--doc:#228833}
.prep .o3{--doc:#ccbb44}.prep .o4{--doc:#66ccee}.prep .o5{--doc:#aa3377}
.prep .chip.pad{color:var(--pad);border-color:transparent;
 background:repeating-linear-gradient(45deg,transparent 0 4px,var(--line) 4px 6px)}
.prep .chips>.line:not(:first-child)::before{content:"\\A";white-space:pre}
.prep .chips>.new{border-left:3px double var(--dim);padding-left:4px;margin-left:4px}
.prep .chips .chip:hover,.prep .chips .chip:focus{outline:2px solid var(--on);outline-offset:1px}

.prep .tokens{position:relative;padding-bottom:104px}
.prep .hint,.prep .why,.prep .chips .chip>i:last-child{position:absolute;left:0;right:0;bottom:0;
 font:13px/1.5 var(--sans);color:var(--ink);background:var(--card);white-space:normal}
.prep .hint{height:96px;border-top:1px solid var(--line);padding-top:8px;color:var(--dim)}
.prep .why{display:none;height:64px;overflow-y:auto}
.prep .why em{font-style:normal;font-weight:700;display:block}
.prep .chips .chip>i:last-child{display:none;bottom:64px;height:23px;overflow:hidden;white-space:nowrap;
 text-overflow:ellipsis;font-variant-numeric:tabular-nums}
.prep .chips .chip:focus>i:last-child,.prep .chips>span:focus-within>.why{display:block;z-index:1}
.prep .chips .chip:hover>i:last-child,.prep .chips>span:hover>.why{display:block;z-index:2}
.prep .told{position:relative;padding-bottom:34px}
.prep .runs{max-height:80vh;overflow-y:auto;padding:2px;
 background:linear-gradient(var(--card) 60%,transparent) top/100% 30px,
 linear-gradient(transparent,var(--card) 40%) bottom/100% 30px,
 linear-gradient(var(--line),transparent) top/100% 9px,linear-gradient(transparent,var(--line)) bottom/100% 9px;
 background-repeat:no-repeat;background-attachment:local,local,scroll,scroll}
.prep .run{display:grid;grid-template-columns:minmax(120px,210px) minmax(0,1fr);gap:2px 14px;padding:7px 0;
 border-top:1px solid var(--line)}
.prep .run:first-child{border-top:0}
.prep .said{font-size:12px;line-height:1.4;color:var(--dim);border-left:3px solid var(--line);padding-left:8px}
.prep .said b{display:block;color:var(--ink);font-size:13px}
.prep .run.on>.said{border-left-color:var(--on)}
.prep .run.on>.said b{color:var(--on)}
.prep .run.pad>.said{border-left-style:dashed}
.prep .runs .chip:hover,.prep .runs .chip:focus{outline:2px solid var(--on);outline-offset:1px}
.prep .chip:target{outline:3px solid var(--bad);outline-offset:2px}
.prep .under,.prep .runs .chip>i:last-child{position:absolute;left:0;right:0;bottom:0;height:26px;overflow:hidden;
 font:13px/26px var(--sans);font-variant-numeric:tabular-nums;color:var(--ink);background:var(--card);
 white-space:nowrap;text-overflow:ellipsis}
.prep .under{color:var(--dim);border-top:1px solid var(--line)}
.prep .runs .chip>i:last-child{display:none;border-top:1px solid var(--line)}
.prep .runs .chip:focus>i:last-child{display:block;z-index:1}
.prep .runs .chip:hover>i:last-child{display:block;z-index:2}
.prep .every[open]~.runs .chip>i:last-child{display:block;position:static;height:auto;border:0;background:none;
 color:var(--dim);font:11px/1.35 var(--sans);white-space:normal}
.prep .every[open]~.runs .chip{border-color:var(--line);border-style:solid;border-width:1px 1px 2px;padding:2px 4px}
.prep .chip>small{display:block;font:400 11px/1.3 var(--mono);color:var(--dim);border-bottom:1px dotted var(--line)}
.prep .even{display:grid;grid-template-columns:minmax(90px,170px) repeat(2,minmax(0,1fr));gap:0 12px;font-size:13px}
.prep .even>*{border-top:1px solid var(--line);padding:6px 0;min-width:0}
.prep .even>.top{border-top:0;font-weight:600;color:var(--dim)}
.prep .chip.faint{opacity:.62}
.prep .behind{opacity:.55}
.prep .skip{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden;white-space:nowrap}
.prep .skip:focus{position:static;clip-path:none;width:auto;height:auto}
.prep .soft{white-space:normal}
.prep .below{display:block;color:var(--dim);font-weight:400;white-space:normal}
.prep .grid .below{min-width:200px}
.prep-controls h3{font:650 14px/1.3 system-ui,sans-serif;margin:12px 0 2px;padding-top:8px;
 border-top:1px solid var(--jp-border-color2,#d5dbe5)}
.prep-controls .widget-inline-hbox:is(.widget-text,.widget-textarea,.widget-dropdown){flex-direction:column;height:auto;
 align-items:stretch}
.prep-controls .widget-inline-hbox:is(.widget-text,.widget-textarea,.widget-dropdown)>.widget-label{width:auto;
 text-align:left;height:auto;line-height:1.4;max-width:none;font-size:12px}
.prep-controls .widget-inline-hbox:is(.widget-text,.widget-dropdown)>:last-child{flex:0 0 auto;width:100%;
 min-height:28px}
.prep-source textarea{white-space:pre;overflow-x:auto;font-size:12px}
@media print{.prep .runs{max-height:none}}
.prep a{color:var(--on);text-decoration:underline}
.prep .note a{color:inherit}
@media(max-width:700px){.prep-page>.prep{padding:12px}}
@container(max-width:820px){.prep .two{grid-template-columns:minmax(0,1fr);gap:0}}
@container(max-width:560px){
.prep .run{grid-template-columns:minmax(0,1fr)}
.prep .even{grid-template-columns:minmax(0,1fr)}.prep .even>:nth-child(3n+2),.prep .even>:nth-child(3n){border-top:0}
.prep .card{padding:10px}
.prep .strip,.prep .strip.file{grid-template-columns:minmax(0,1fr) auto}.prep .strip .bar{grid-column:1/3;grid-row:2}
.prep .tokens{padding-bottom:162px}.prep .hint{height:154px}.prep .why{height:122px}
.prep .chips .chip>i:last-child{bottom:122px}}
"""
# A notebook says on its body which theme it wears; where nobody says, the reader's system decides.
STYLE = Html(
    f".prep{{{_LIGHT}}}@media(prefers-color-scheme:dark){{.prep{{{_DARK}}}.prep-page{{background:#14181f}}}}"
    f'body[data-jp-theme-light="true"] .prep{{{_LIGHT}}}body[data-jp-theme-light="false"] .prep{{{_DARK}}}'
    + _RULES.replace("\n ", "").replace("\n", "")
)
