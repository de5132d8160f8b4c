"""Run on everything as a page: how far it is, how long it will take, how it ended, and the command that does it.

running · 12 min · 3 of 9 notebooks done          about 40 min left
12_dedup   sketch  ███████░░░░  5 of 12 tasks     memory 3.1 GB of 8.6 GB
"""

from __future__ import annotations

from prep_lib.markup import Html, Part, bar, card, code, duration, join, note, percent, size, snippet, tag
from prep_lib.words import say
from widgets.everything.state import State
from widgets.progress import rows

#: How each end is told: the mark and colour of a note.
_ENDS = {"done": "ok", "failed": "bad", "interrupted": "warn", "killed": "warn"}


def page(state: State) -> str:
    """Return the whole widget as HTML."""
    lang = state.lang
    head = [tag("h1", say("everything.title", lang)), tag("p", say("everything.sub", lang, name=state.name), cls="sub")]
    body = [_stands(state), *_problems(state)]
    if state.state in ("running", "stopping"):
        body.append(_working(state))
    return snippet(join([*head, *body, _command(state)]), lang)


def command_page(state: State) -> str:
    """Return what a report shows: nothing runs from it, so the command alone."""
    sub = tag("p", say("everything.sub", state.lang, name=state.name), cls="sub")
    return snippet(join([tag("h1", say("everything.title", state.lang)), sub, _command(state)]), state.lang)


def _stands(state: State) -> Html:
    lang = state.lang
    told = say(f"everything.state_{state.state}", lang)
    if state.elsewhere:
        told += " " + say("everything.elsewhere", lang, host=state.elsewhere)
    if state.seconds and state.state != "new":
        told += " · " + duration(state.seconds)
    if state.state not in _ENDS:
        return tag("p", tag("b", told), role="status")
    parts = [tag("b", told), tag("span", state.said, style="display:block")]
    if state.state == "killed":
        why = "everything.killed_memory" if state.starved else "everything.killed_else"
        parts.append(tag("span", say(why, lang, memory=_memory(state)), style="display:block"))
    return note(_ENDS[state.state], *parts)


def _problems(state: State) -> list[Html]:
    if not state.problems:
        return []
    return [note("bad", tag("b", say("everything.refused", state.lang))), code("\n".join(state.problems))]


def _working(state: State) -> Html:
    lang = state.lang
    done = say("everything.notebooks", lang, done=state.finished, plan=state.plan)
    notebooks = bar([Part("kept", state.finished, done)], max(state.plan, 1), done)
    drawn = tag("div", tag("b", say("everything.all", lang)), notebooks, tag("span", done, cls="dim"), cls="stage")
    told = [_left(state), say("everything.memory", lang, memory=_memory(state))]
    work = card(state.notebook, rows(state.stages, lang)) if state.notebook else Html()
    return join([drawn, work, *(tag("p", text) for text in told)])


def _left(state: State) -> str:
    lang, left = state.lang, state.left
    if left is None or left.seconds is None:
        return say("everything.left_unknown", lang)
    told = say("everything.left", lang, time=duration(left.seconds))
    names = [*([say("everything.left_rest", lang, name=left.rest)] if left.rest else []), *left.unknown]
    return told + (say("everything.left_but", lang, names=", ".join(names)) if names else "")


def _memory(state: State) -> str:
    if not state.memory or not state.limit:
        return say("everything.memory_unknown", state.lang)
    share = percent(state.memory, state.limit, digits=0)
    return say("everything.memory_of", state.lang, peak=size(state.memory), limit=size(state.limit), share=share)


def _command(state: State) -> Html:
    return join([tag("p", say("everything.command", state.lang), cls="dim"), code(state.command)])
