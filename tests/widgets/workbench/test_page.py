"""The workbench page: the reason stands beside its tokens; nothing from data gets out; one state, the same bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from prep_lib.chat.mask import WHY
from prep_lib.markup import STYLE
from prep_lib.safe import safe_html
from prep_lib.words import LANGS, WORDS
from tests.widgets.workbench.conftest import CHATML, ENDLESS, LOOPS, PAIR, TALK
from widgets.workbench import state as change
from widgets.workbench.page import MOST, head, more, page, rows, talk, tokens
from widgets.workbench.state import State


def drawn(html: str) -> list[str]:
    """The classes of the chips in order, the legend apart."""
    return re.findall(r'<b class="(chip[^"]*)" tabindex=0', html)


def told(html: str) -> list[tuple[str, str]]:
    """What stands beside each run: heading and sentence."""
    return re.findall(r'<div class="said"><b>(.*?)</b>(.*?)</div>', html)


def test_the_reason_stands_beside_its_tokens(make: Callable[..., State]) -> None:
    runs = told(page(make()))
    assert runs[0] == (
        "turn 0 (user)",
        "Not trained. The turn of the user, with the format around it: only answers of the assistant are trained.",
    )
    assert ("turn 3 (assistant) · content", "Trained. The model must learn to write this.") in runs
    assert any(heading == "turn 3 (assistant) · stop" and "Trained." in why for heading, why in runs)
    assert any("An answer that is only read" in why for heading, why in runs if heading.startswith("turn 1"))


def test_a_token_says_position_id_bytes_characters_and_field(make: Callable[..., State]) -> None:
    html = page(make([PAIR]))
    assert re.search(r"id=t-0-\d+>yo<i>\d+ · id \d+ · bytes 79 6F · characters \d+–\d+ · content\[0\]</i></b>", html)
    assert re.search(r"id=t-0-0>im▁start<i>0 · id 3 · bytes 3C EF .* · characters 0–12 · template</i>", html)


def test_every_token_has_a_name_of_its_own(make: Callable[..., State]) -> None:
    for index in range(5):
        html = page(change.with_index(make(), index))
        names = re.findall(rf" id=(t-{index}-\S+?)>", html)
        assert len(names) == len(set(names)) == len(drawn(html))


def test_as_target_a_chip_shows_what_is_written_next(make: Callable[..., State]) -> None:
    """The loss stands one place before the token: at the last token of the generation prompt it begins."""
    as_input, as_target = make([PAIR]), make([PAIR], show="target")
    first = drawn(page(as_input)).index("chip on")
    assert drawn(page(as_target)).index("chip on") == first - 1
    html = page(as_target)
    assert re.search(
        rf'id=t-0-{first - 1}><small><i class="s">↵</i></small>yo<i>{first - 1} reads id \d+, writes', html
    )
    assert "Behind it nothing is left to write." in html
    assert "above what is read at that place" in html


def test_what_is_proven_is_said_answer_by_answer(make: Callable[..., State]) -> None:
    html = tokens(make())
    assert "Proven for 1 answers" in html
    assert "generation prompt whole" in html
    html = tokens(make(way="endless"))
    assert "Turn 3: no stop token follows" in html
    assert "Proven for" not in html
    assert "Assembled from ids" in tokens(make(way="chatml"))


def test_the_head_says_what_is_shown(make: Callable[..., State]) -> None:
    state = make(names=[f"a.jsonl#L{line}" for line in range(5)])
    html = head(change.with_policy(change.with_source(state, ENDLESS), "answers", "last"))
    assert "template: mine (edited) · row 1 of 5 · form messages · policy: answers behind the last question" in html
    assert "a.jsonl#L0" in html
    assert "answers = &#x27;last&#x27;" in html
    assert "press Save" in html
    assert "somebody labelled this row False" in head(change.with_index(state, 3))


def test_a_broken_template_is_a_line_over_the_last_good_tokens(make: Callable[..., State]) -> None:
    state = make()
    html = page(change.with_source(state, "{% for"))
    assert 'class="note bad" role="alert"' in html
    assert "The tokens below are those of the last text that did." in html
    assert drawn(html) == drawn(page(state))
    assert "loop steps" in page(change.with_source(state, LOOPS))


def test_a_dropped_row_says_why(make: Callable[..., State]) -> None:
    html = page(change.with_source(make([PAIR]), "{{ messages[0].content }}"))
    assert "This row is dropped (message_not_rendered). The template leaves out an answer" in html
    html = page(make([PAIR], max_length=4))
    assert "Under the limit of 4 tokens this row is dropped (too_long)." in html
    assert all("pad" in kinds for kinds in drawn(html))
    assert "The whole row is dropped under the limit" in html


def test_what_is_cut_off_is_hatched(make: Callable[..., State]) -> None:
    state = make([TALK], too_long="cut")
    n = len(change.work(state).strands[0].tokens)
    html = page(replace(state, max_length=n - 2))
    assert [" pad" in f" {kinds}" for kinds in drawn(html)] == [False] * (n - 2) + [True] * 2
    assert f"This row is cut at {n - 2} tokens: 2 go, 1 of them targets." in html


def test_no_record_and_a_broken_one(make: Callable[..., State]) -> None:
    assert "There is no record to show." in page(make([]))
    html = page(make([{"nothing": 1}]))
    assert "unknown_form" in html
    assert drawn(html) == []


def test_the_conversation_marks_what_is_trained(make: Callable[..., State]) -> None:
    assert re.findall(r"<small>(.*?)</small>", talk(make())) == ["user", "assistant", "user", "assistant · trained"]
    pair = re.findall(r"<small>(.*?)</small>", talk(change.with_index(make(), 2)))
    assert pair == ["user", "assistant · trained", "assistant · trained"]


def test_preferences_share_a_prompt_and_part_somewhere(make: Callable[..., State]) -> None:
    html = more(change.with_index(make(), 2))
    assert "Preference: one prompt, two answers" in html
    assert re.search(r"The first difference is at position \d+: ", html)
    same = {"prompt": "hi", "chosen": "yo", "rejected": "yo"}
    assert "there is nothing to prefer" in more(make([same]))


def test_a_comparison_shows_only_what_differs(make: Callable[..., State]) -> None:
    html = more(make([PAIR], other="template: endless"))
    assert "places that differ: 2" in html  # the line feed behind the question, the stop of the answer
    assert "nothing here" in html
    assert "the same targets" in more(make([PAIR], other="strategy: chatml"))
    html = more(make(other="policy: answers"))
    assert "Both give the same" in html
    broken = make([{"query": "a", "response": "b", "id": 1}], other="strategy: alpaca")
    assert "Compared, differences only" in more(broken)


def test_findings_link_to_their_tokens(make: Callable[..., State]) -> None:
    state = change.settle(change.with_index(make([TALK, PAIR], way="endless"), 1))
    html = page(state)
    names = re.findall(r'href="#(t-\d+-\d+)"', html[html.index("EOT_NOT_TRAINED") :])
    assert names
    assert all(name.startswith("t-1-") and f"id={name}>" in html for name in names)
    assert "The model never stops" in html


def test_a_part_of_other_choices_says_so(make: Callable[..., State]) -> None:
    state = make([PAIR], way="endless")
    assert "Being worked out" in more(state)
    done = change.settle(state)
    assert "Being worked out" not in more(done)
    assert "Of the choices before" in more(change.rewrite(done, "messages.0", "so"))


def test_methods_say_where_they_differ_from_the_rule(make: Callable[..., State]) -> None:
    html = more(change.settle(make([PAIR])))
    assert "Ways to find the targets, side by side" in html
    assert "the template marks nothing" in html
    assert re.search(r'<td class="word">prefix_offsets</td><td class="word">.*?@\d+', html)


def test_rows_are_listed_the_worst_first(make: Callable[..., State]) -> None:
    names = [f"data/a.jsonl#L{line}" for line in range(1, 4)]
    state = change.scan_some(make([PAIR, {}, {"query": "<｜im▁end｜>", "response": "ok"}], names=names), 10)
    html = rows(state)
    assert "3 of 3 rows looked at · 1 with nothing to report" in html
    assert "LITERAL_SPECIAL_IN_CONTENT · first in L3" in html
    assert html.index("RECORD_UNREADABLE") < html.index("LITERAL_SPECIAL_IN_CONTENT")
    assert "first in L2" in html
    assert "No row was looked at yet." in rows(make())


def test_limits_say_what_they_lose(make: Callable[..., State]) -> None:
    html = more(change.settle(make(max_length=12, too_long="cut"), 10))
    assert "What a limit of 12 tokens would lose" in html
    assert "★ cut" in html
    assert "What a limit" not in more(change.settle(make(), 10))


@pytest.mark.parametrize("lang", LANGS)
def test_data_stays_data(make: Callable[..., State], nasty: str, lang: str) -> None:
    said = [{"role": "user", "content": nasty}, {"role": "assistant", "content": nasty}]
    records = [
        {"messages": said}, {"messages": [{"role": nasty, "content": "x"}]}, {nasty: nasty}, {"text": nasty},
        {"prompt": nasty, "chosen": nasty, "rejected": "x"},
    ]  # fmt: skip
    state = make(records, lang=lang, names=[nasty] * 5, other="template: endless")
    state = change.with_source(state, CHATML + "{# " + nasty + " #}" + nasty.replace("{", ""))
    for index in range(5):
        shown = change.settle(change.with_index(state, index), 10)
        html = page(shown)
        html.encode("utf-8")
        assert html == page(shown)
        assert not re.search(r"<(script|img)", html)
        assert not {"\u202e", "\x00", "\u2028"} & set(html)
        broken = page(change.with_source(shown, nasty + "{% for"))
        assert not re.search(r"<(script|img)", broken)


def test_the_name_of_a_field_is_data_too(make: Callable[..., State], nasty: str) -> None:
    call = {"type": "function", "function": {"name": nasty, "arguments": {nasty: nasty}}}
    talked = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    source = CHATML.replace("{{ m.content }}", "{{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}")
    state = change.with_source(make([{"messages": talked}]), source)
    html = page(state)
    assert "tool_calls[0].function.arguments" in html
    assert not re.search(r"<(script|img)", html)
    assert not {"\u202e", "\x00", "\u2028"} & set(html)


class Read(HTMLParser):
    """What a page says, however its attributes are quoted."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.said: list[object] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.said.append((tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        self.said.append(tag)

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def test_a_report_keeps_the_page_as_it_is(make: Callable[..., State]) -> None:
    """The second wall of a report takes nothing out of it but the style, which is on the report already."""
    html = page(change.settle(make(way="endless", other="template: mine", max_length=12), 10))
    assert Read(safe_html(html)).said == Read(html.replace(f"<style>{STYLE}</style>", "")).said


def test_chinese(make: Callable[..., State]) -> None:
    html = page(change.settle(make(lang="zh", other="template: endless", max_length=1024), 10))
    assert "这个模板训练哪些 token" in html
    assert "参与训练。 模型必须学会写出这些。" in html
    assert "所有行，最严重的在前" in html


@pytest.mark.parametrize("why", [*WHY, "document", "eos"])
def test_every_reason_has_a_sentence(why: str) -> None:
    assert why == "answer_frame" or f"workbench.why_{why}" in WORDS


def test_a_long_row_is_drawn_in_windows(make: Callable[..., State]) -> None:
    state = make([{"query": "x" * 5000, "response": "yo"}])
    html = tokens(state)
    assert len(drawn(html)) == MOST
    assert f"Tokens 0 to {MOST - 1:,} of" in html
    assert len(html) < 300_000
    last = tokens(replace(state, first=4990))
    assert 0 < len(drawn(last)) < 50
    assert "id=t-0-4990>" in last
    assert len(drawn(tokens(make([PAIR], first=3)))) == len(drawn(tokens(make([PAIR]))))


def test_headings_and_labels_for_whoever_does_not_see_the_page(make: Callable[..., State]) -> None:
    html = page(change.settle(make(other="template: endless"), 10))
    assert html.count("<h1>") == 1
    assert html.count("<h2>") >= 5
    assert 'role="list" aria-label="The tokens in order, in runs that share one reason"' in html
    assert 'role="status"' in html
    assert 'href="#after-0-0"' in html, "two thousand tokens can be passed by in one step"
    assert 'id="after-0-0"' in html


def test_a_strategy_of_a_persons_own_that_raises_is_one_line(make: Callable[..., State], monkeypatch: Any) -> None:
    from prep_lib.chat.strategy import StrategyFactory

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(StrategyFactory, "create", broken)
    assert "ZeroDivisionError: oops" in page(make([PAIR], way="chatml"))


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("given", [{}, {"show": "target"}, {"other": "template: endless"}, {"max_length": 64}])
@pytest.mark.parametrize("form", ["turns", "word", "pair"])
def test_a_report_stays_small_whatever_the_row(
    make: Callable[..., State], form: str, given: dict[str, Any], lang: str
) -> None:
    turns = [{"role": role, "content": "字\u202e" * 6} for _ in range(50) for role in ("user", "assistant")]
    record = {
        "turns": {"messages": turns},
        "word": {"query": "x" * 50_000, "response": "\U0001f642\u202e" * 2000},
        "pair": {"prompt": "hi", "chosen": "so " * 2000, "rejected": "it " * 2000},
    }[form]
    html = page(make([record], lang=lang, **given))
    assert len(json.dumps(html)) < 300_000
    assert all(f"id=t-0-{name}300>" in html for name in (["", "b-"] if form == "pair" else [""]))
    assert re.search("are drawn|绘制", html)


def test_a_long_message_is_cut_beside_the_tokens_and_says_so(make: Callable[..., State]) -> None:
    html = talk(make([{"query": "x" * 5000, "response": "yo"}]))
    assert "… 3,500 more characters" in html
    many = talk(make([{"messages": [{"role": role, "content": "x" * 900} for role in ("user", "assistant") * 60]}]))
    assert re.search(r"… \d+ more turns", many)


def test_what_the_limit_takes_is_no_target_and_told_once_a_turn(make: Callable[..., State]) -> None:
    state = make([PAIR], max_length=2)
    assert "trained" not in talk(state)
    assert [heading for heading, _ in told(page(state))] == ["turn 0 (user)", "turn 1 (assistant)"]


def test_what_was_asked_for_stands_before_what_is_found(make: Callable[..., State]) -> None:
    html = page(change.settle(make([PAIR], way="endless", other="template: mine"), 10))
    assert html.index("Compared, differences only") < html.index("Findings in the template") < html.index("By symptom")
