"""Diagnoses: the fixtures exactly, each rule once met and once not, folders, hostile templates, every row of a file."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import shared

from prep_lib.chat import diagnose as module
from prep_lib.chat.diagnose import diagnose, repaired, scan
from prep_lib.chat.mask import Policy
from prep_lib.chat.probes import stand_in
from prep_lib.chat.rules import RULES
from prep_lib.chat.symptoms import Finding
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import BadInput, BadRecord
from prep_lib.record import Conversation, Message
from prep_lib.tokens.tokenizer import AutoTokenizer

SPECIALS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]

#: A template that leaves nothing out.
FULL = (
    "{% if tools %}{{ '<|im_start|>system\n' + tools | tojson + '<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.reasoning_content %}{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls %}{{ c.function.name + ' ' }}"
    "{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
#: The place before what a turn says.
SAYS = "{% if m.reas"
ANSWERS = "{% if m.role == 'assistant' "
TAGGED = FULL.replace(SAYS, ANSWERS + "%}{% generation %}A{% endgeneration %}{% endif %}" + SAYS)

TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
LONGER = [*TALK, {"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}]
SYSTEM = {"role": "system", "content": "s"}


def calling(arguments: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}


CALL, TEXT_CALL = calling({"n": 3}), calling('{"n": 3}')
USING = [TALK[0], CALL, {"role": "tool", "content": "3"}, TALK[1]]
TOOL = {"type": "function", "function": {"name": "f", "description": None, "parameters": {}}}


@pytest.fixture(scope="module")
def tokenizer() -> AutoTokenizer:
    return AutoTokenizer().train(["ab ab b c"], vocab_size=300, special_tokens=SPECIALS)


def named(findings: list[Finding]) -> set[str]:
    return {finding.rule for finding in findings}


def without(part: str, instead: str = "") -> str:
    assert part in FULL
    return FULL.replace(part, instead)


THOUGHT = "{% if m.reasoning_content %}{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}"
CALLS = FULL[FULL.index("{% for c in") : FULL.index("{{ '<|im_end|>\n' }}{% endfor %}")]
PROMPT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
TURN = "{{ '<|im_end|>\n' }}{% endfor %}{% if add"
REFUSE = "{% for m in messages %}"
TOOLS = "{% if tools %}{{ '<|im_start|>system\n' + tools | tojson + '<|im_end|>\n' }}{% endif %}"


def refusing(test: str) -> str:
    return without(REFUSE, REFUSE + "{% if " + test + " %}{{ raise_exception('no') }}{% endif %}")


def tagged(text: str) -> str:
    return "{% generation %}" + text + "{% endgeneration %}"


def calls(text: str) -> str:
    return without(CALLS, "{% for c in m.tool_calls %}" + text + "{% endfor %}")


def among(test: str) -> str:
    return without(REFUSE, "{% for m in messages if " + test + " %}")


END = "{{ '<|im_end|>\n' }}{% endfor"
HEADER = "{{ '<|im_start|>' + m.role + '\n' }}"
SAID = "{{ m.content }}"
KNOWN = "m.role in ('system', 'user', 'assistant', 'tool')"
DEFAULT = "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}"
EMPTY = ANSWERS + "and not m.reasoning_content %}{{ '<think></think>' }}{% endif %}"
ITEMS = "{{ c.function.name }}{% for k, v in c.function.arguments.items() %}{{ v }}{% endfor %}"
THINKING = [{**one, "reasoning_content": "t"} if one["role"] == "assistant" else one for one in LONGER]
MERGING = without(PROMPT, PROMPT.replace("assistant\n", "assistant\na")).replace("m.role + '\n'", "m.role + '\na'")
TRIMMED = without(SAID, "{{ m.content | trim }}")
HUMAN = {"role": "human", "content": "q"}
PAIR = {"prompt": "q", "chosen": "a", "rejected": "bb"}


def answered(content: str | None, **more: Any) -> list[dict[str, Any]]:
    return [TALK[0], {"role": "assistant", "content": content, **more}]


#: Rule, a template that meets it, the conversation that shows it.
MET: list[tuple[str, str, Any]] = [
    ("TEMPLATE_FAILS", refusing("'a' in m.content"), TALK),
    ("PROMPT_NOT_RENDERED", FULL + "{% if add_generation_prompt %}{{ raise_exception('no') }}{% endif %}", TALK),
    ("DOUBLE_BOS", "{{ bos_token + bos_token }}" + FULL, TALK),
    ("DOUBLE_EOS", FULL + "{{ eos_token + eos_token }}", TALK),
    ("MARKER_NOT_SINGLE_TOKEN", without("<|im_end|>", "<｜im_end｜>"), TALK),
    ("EOT_NOT_TRAINED", without(END, "{{ '\n' }}{% endfor"), TALK),
    ("NO_TERMINATOR_MID_TURN", without(END, "{% if loop.last %}{{ '<|im_end|>' }}{% endif %}{% endfor"), LONGER),
    ("HEADER_IN_TRAINED_SPAN", without(HEADER, tagged(HEADER)), TALK),
    ("TEXT_AFTER_EOT_TRAINED", without(END, "{{ '<|im_end|>' }}" + tagged("{{ '\n' }}") + "{% endfor"), TALK),
    ("PROMPT_IN_TRAINED_SPAN", without(SAID, tagged(SAID)), TALK),
    ("ANSWER_NOT_IN_TAGS", without(END, tagged("{{ '<|im_end|>' }}") + "{{ '\n' }}{% endfor"), TALK),
    ("GENERATION_PROMPT_MISMATCH", without(PROMPT, PROMPT.replace("assistant\n", "assistant\n<think>\n")), TALK),
    ("NOT_PREFIX_PRESERVING", "{{ messages | length }}" + FULL, LONGER),
    ("BORDER_TOKEN_MERGES", MERGING, answered("b")),
    ("EMPTY_THINK_TRAINED", without(SAYS, EMPTY + SAYS), TALK),
    ("REASONING_DROPPED_FROM_HISTORY", without(SAYS, "{% if loop.last and m.reas"), THINKING),
    ("REASONING_DROPPED", without(THOUGHT), answered("a", reasoning_content="t")),
    ("SYSTEM_DROPPED_IN_TRAINING", among("m.role != 'system' or messages[-1].role == 'user'"), [SYSTEM, *TALK]),
    ("SYSTEM_DROPPED", among("m.role != 'system'"), [SYSTEM, *TALK]),
    ("MID_SYSTEM_DROPPED", among("m.role != 'system'"), [*TALK, SYSTEM, *TALK]),
    ("SYSTEM_REFUSED", refusing("m.role == 'system'"), [SYSTEM, *TALK]),
    ("DEFAULT_SYSTEM_INJECTED", DEFAULT + FULL, TALK),
    ("RENDER_DEPENDS_ON_DATE", "{{ strftime_now('%d') }}" + FULL, TALK),
    ("CONTENT_TRIMMED", TRIMMED, answered("  a")),
    ("CONTENT_CUT", without(SAID, "{{ m.content[:3] }}"), answered("abcdef")),
    ("CONTENT_NULL_FAILS", without(SAID, "{{ '' + m.content }}"), [TALK[0], {**CALL, "content": None}, *USING[2:]]),
    ("MESSAGE_DROPPED", among(KNOWN), [HUMAN, *LONGER]),
    ("ROLE_REFUSED", refusing("m.role == 'human'"), [HUMAN, TALK[1]]),
    ("ROLES_NOT_ALTERNATING", refusing("not loop.first and loop.previtem.role == m.role"), [*TALK, TALK[1]]),
    ("TOOLS_NOT_RENDERED", without(TOOLS), {"messages": TALK, "tools": [TOOL]}),
    ("TOOLS_REFUSED", refusing("m.role == 'tool'"), USING),
    ("TOOL_CALLS_DROPPED", without(CALLS), USING),
    ("TOOL_RESULT_DROPPED", among("m.role != 'tool'"), USING),
    ("TOOL_ARGUMENTS_DICT_FAIL", calls("{{ c.function.name + c.function.arguments }}"), USING),
    ("TOOL_ARGUMENTS_STRING_FAIL", calls(ITEMS), [USING[0], TEXT_CALL, *USING[2:]]),
    ("STRUCT_PADDING_RENDERED", FULL, {"messages": TALK, "tools": [TOOL]}),
    ("LITERAL_SPECIAL_IN_CONTENT", FULL, [{"role": "user", "content": "<|im_end|>"}, TALK[1]]),
    ("NO_TARGET", FULL, answered("a", train=False)),
    ("NO_GENERATION_PROMPT", without(PROMPT), TALK),
    ("NO_GENERATION_TAGS", FULL, TALK),
    ("ANSWER_STARTS_WITH_BLANK", without(SAID, ANSWERS + "%}{{ ' ' }}{% endif %}" + SAID), TALK),
    ("PREFERENCE_PROMPT_DIFFERS", "{{ messages[-1].content | length }}" + FULL, PAIR),
    ("RECORD_UNREADABLE", FULL, {"messages": 3}),
]
#: What even the full template meets with the data that show it, or has its own test.
ALWAYS_MET = {
    "STRUCT_PADDING_RENDERED",
    "LITERAL_SPECIAL_IN_CONTENT",
    "NO_TARGET",
    "NO_GENERATION_TAGS",
    "RECORD_UNREADABLE",
}


@pytest.mark.parametrize(("rule", "source", "record"), MET, ids=[rule for rule, _, _ in MET])
def test_each_rule_is_met_once_and_not_by_a_template_that_is_well(
    rule: str, source: str, record: Any, tokenizer: AutoTokenizer
) -> None:
    found = {one.rule: one for one in diagnose(source, tokenizer, [record], notes=True, repair=False)}
    assert rule in found, named(list(found.values()))
    assert found[rule].severity == RULES[rule][0]
    assert found[rule].detail
    if rule not in ALWAYS_MET:
        assert rule not in named(diagnose(FULL, tokenizer, [record], notes=True, repair=False))
    else:
        assert rule not in named(diagnose(TAGGED, tokenizer, [TALK], notes=True, repair=False))


def test_every_rule_has_a_case() -> None:
    own = {"PAD_IS_EOS", "TOO_LONG"}
    assert {rule for rule, _, _ in MET} == set(RULES) - own


def test_a_full_template_is_well_with_all_probes(tokenizer: AutoTokenizer) -> None:
    assert diagnose(FULL, tokenizer) == []


# ---------------------------------------------------------------- the fixtures


def fixtures() -> list[dict[str, Any]]:
    return list(json.loads(shared("doctor_fixtures/fixtures.json").read_text("utf-8")))


def test_the_fixtures_get_exactly_their_findings() -> None:
    for fixture in fixtures():
        tokenizer = AutoTokenizer(shared(f"tokenizers/{fixture['tokenizer']}.json"))
        found = diagnose(fixture["template"], tokenizer, [fixture["messages"]])
        assert named(found) == set(fixture["expected_findings"]), fixture["id"]
        assert all(finding.severity in ("error", "warning") for finding in found)


def test_repairs_of_fixtures_do_away_with_their_findings() -> None:
    for fixture in fixtures():
        tokenizer = AutoTokenizer(shared(f"tokenizers/{fixture['tokenizer']}.json"))
        for finding in diagnose(fixture["template"], tokenizer, [fixture["messages"]]):
            repair = finding.repair
            if repair is not None and repair.template is not None:
                assert repair.proofs, fixture["id"]
                again = named(diagnose(repair.template, tokenizer, [fixture["messages"]], repair=False))
                assert finding.rule not in again, fixture["id"]


def test_three_published_training_templates_train_their_header_and_are_repaired() -> None:
    for name in ("qwen2_5_training", "deepseekv3_training", "gptoss_training"):
        found = {one.rule: one for one in diagnose(shared(f"chat_templates/{name}.jinja"))}
        repair = found["HEADER_IN_TRAINED_SPAN"].repair
        assert repair is not None, name
        assert repair.template is not None, name
        assert len(repair.proofs) == 2
        again = named(diagnose(repair.template, notes=True, repair=False))
        assert not again & {"HEADER_IN_TRAINED_SPAN", "TEXT_AFTER_EOT_TRAINED", "EOT_NOT_TRAINED", "ANSWER_NOT_IN_TAGS"}


# ---------------------------------------------------------------- evidence, rows and severity


def test_tokens_are_those_of_the_encoded_row(tokenizer: AutoTokenizer) -> None:
    source = without(END, "{{ '\n' }}{% endfor")
    found = next(one for one in diagnose(source, tokenizer, [TALK, LONGER]) if one.rule == "EOT_NOT_TRAINED")
    assert found.rows == (0, 1)
    assert found.of == 2
    assert "2 of 2 rows" in found.detail
    chat = ChatTemplate(source, tokenizer)
    ids = chat.encode(chat.render(TALK)).ids
    token = found.tokens[0]
    assert (token.row, token.text, ids[token.position]) == (0, "a", token.id)


def test_what_only_a_special_probe_meets_is_less_than_what_data_meet(tokenizer: AutoTokenizer) -> None:
    source = without(CALLS)
    probed = {one.rule: one.severity for one in diagnose(source, tokenizer, notes=True, repair=False)}
    given = {one.rule: one.severity for one in diagnose(source, tokenizer, [USING], repair=False)}
    assert probed["TOOL_CALLS_DROPPED"] == "warning"  # it reads tools, so one would expect calls
    assert given["TOOL_CALLS_DROPPED"] == "error"


def test_data_without_tools_say_nothing_about_tools(tokenizer: AutoTokenizer) -> None:
    assert diagnose(without(CALLS), tokenizer, [TALK]) == []


def test_a_double_bos_of_other_programs_steps_back_behind_an_error() -> None:
    fixture = next(one for one in fixtures() if one["id"] == "system_only_on_last_user")
    tokenizer = AutoTokenizer(shared(f"tokenizers/{fixture['tokenizer']}.json"))
    found = diagnose(fixture["template"], tokenizer, [fixture["messages"]], notes=True)
    assert [one.severity for one in found if one.rule == "DOUBLE_BOS"] == ["note"]


def test_conversations_records_and_plain_messages_are_all_taken(tokenizer: AutoTokenizer) -> None:
    talk = Conversation("", (Message("user", "q"), Message("assistant", "  a")))
    for given in (talk, [one.as_dict() for one in talk.messages], {"query": "q", "response": "  a"}):
        assert named(diagnose(TRIMMED, tokenizer, [given])) == {"CONTENT_TRIMMED"}


def test_both_answers_of_a_preference_are_looked_at(tokenizer: AutoTokenizer) -> None:
    pair = {"prompt": "q", "chosen": "a", "rejected": "  b"}
    found = diagnose(TRIMMED, tokenizer, [pair])
    assert [(one.rule, one.rows, one.of) for one in found] == [("CONTENT_TRIMMED", (0,), 1)]


def test_without_a_tokenizer_nothing_is_said_about_tokens() -> None:
    found = named(diagnose(without("<|im_end|>", "<｜im_end｜>"), notes=True, repair=False))
    assert not found & {"MARKER_NOT_SINGLE_TOKEN", "BORDER_TOKEN_MERGES", "DOUBLE_BOS"}
    assert stand_in("<｜im_end｜>").id("<｜im_end｜>") is not None


def test_pad_and_eos_of_a_tokenizer() -> None:
    tokenizer = AutoTokenizer().train(["a"], vocab_size=300, special_tokens=SPECIALS)
    tokenizer.pad_token = tokenizer.eos_token
    assert named(diagnose(FULL, tokenizer, [TALK])) == {"PAD_IS_EOS"}


#: Tokens: one turn is shorter, two are longer.
LIMIT = 35


def test_long_rows_are_counted_with_what_a_cut_loses(tokenizer: AutoTokenizer) -> None:
    found = diagnose(FULL, tokenizer, [TALK, LONGER, [*LONGER, *TALK]], max_length=LIMIT)
    (long,) = [one for one in found if one.rule == "TOO_LONG"]
    assert long.rows == (1, 2)
    assert long.values["stops"] >= 2
    assert not [one for one in diagnose(FULL, tokenizer, [TALK], max_length=LIMIT) if one.rule == "TOO_LONG"]


# ---------------------------------------------------------------- templates that fail


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(999999999) %}{% endfor %}",
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "{% for m in messages %}{{ 'a' * 999999999 }}{% endfor %}",
        "{% for m in messages %}{{ raise_exception('never') }}{% endfor %}",
        "{% for m in messages %}{{ m.content }",
    ],
)
def test_a_hostile_template_is_one_finding_and_an_end(source: str, tokenizer: AutoTokenizer) -> None:
    began = time.monotonic()
    found = diagnose(source, tokenizer, [TALK, LONGER, USING], notes=True)
    assert [(one.rule, one.severity) for one in found] == [("TEMPLATE_FAILS", "error")]
    assert named(diagnose(source)) == {"TEMPLATE_FAILS"}
    assert time.monotonic() - began < 20


def test_a_template_that_is_endless_for_some_rows_ends(tokenizer: AutoTokenizer) -> None:
    source = without(REFUSE, REFUSE + "{% if 'x' in m.content %}{% for a in range(99999999) %}{% endfor %}{% endif %}")
    found = diagnose(source, tokenizer, [[{"role": "user", "content": "x"}, TALK[1]]] * 50)
    assert named(found) == {"TEMPLATE_FAILS"}


def test_nothing_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        diagnose(tmp_path / "nothing")


# ---------------------------------------------------------------- rows of a file


def test_a_scan_tells_every_row_and_never_raises(tokenizer: AutoTokenizer) -> None:
    chat = ChatTemplate(without(CALLS), tokenizer)

    def rows() -> Iterator[Any]:
        yield {"messages": TALK}
        yield {"messages": USING}
        yield {"what": 3}
        yield BadRecord("bad_json", "line 4")
        yield {"messages": [{"role": "user", "content": "<|im_end|>"}, {**TALK[1], "train": False}]}
        yield {"prompt": "q", "chosen": "a", "rejected": "b"}

    reports = list(scan(chat, rows(), start=10))
    assert [(one.index, one.severity, one.rules) for one in reports] == [
        (10, "ok", ()),
        (11, "error", ("TOOL_CALLS_DROPPED",)),
        (12, "error", ("RECORD_UNREADABLE",)),
        (13, "error", ("RECORD_UNREADABLE",)),
        (14, "warning", ("LITERAL_SPECIAL_IN_CONTENT", "NO_TARGET")),
        (15, "ok", ()),
    ]
    assert reports[0].trained == 2  # the answer and its stop token
    assert reports[5].trained == 4
    assert reports[4].literal == 1


def test_a_scan_reads_lazily_and_in_batches(tokenizer: AutoTokenizer) -> None:
    taken = 0

    def endless() -> Iterator[Any]:
        nonlocal taken
        while True:
            taken += 1
            yield {"messages": TALK}

    rows = scan(ChatTemplate(FULL, tokenizer), endless())
    assert next(rows).index == 0
    assert taken <= 256


def test_a_scan_follows_the_policy(tokenizer: AutoTokenizer) -> None:
    chat, record = ChatTemplate(FULL, tokenizer), [{"messages": LONGER}]
    (every,) = scan(chat, record)
    (last,) = scan(chat, record, Policy(answers="last"))
    assert (every.trained, last.trained) == (4, 2)


def test_a_scan_counts_what_the_masks_count() -> None:
    from prep_lib.chat import rendered
    from prep_lib.chat.conversation import read
    from prep_lib.chat.row import Row

    tokenizer = AutoTokenizer(shared("tokenizers/tiny_bytelevel_chatml.json"))
    chat = ChatTemplate(shared("chat_templates/qwen2_5.jinja").read_text("utf-8"), tokenizer)
    rows = [json.loads(line) for line in shared("sft/openai_messages_en.jsonl").read_text("utf-8").splitlines()[:20]]
    talks: Any = [read(record) for record in rows]
    made = rendered.rows(chat, Policy(), talks)
    counted = [int(row.arrays["loss_mask"].sum()) if isinstance(row, Row) else 0 for row in made]
    assert [one.trained for one in scan(chat, rows)] == counted


def test_a_scan_maps_roles_unless_told_to_leave_them(tokenizer: AutoTokenizer) -> None:
    chat, rows = ChatTemplate(among(KNOWN), tokenizer), [{"messages": [HUMAN, TALK[1]]}]
    assert [one.rules for one in scan(chat, rows)] == [()]
    assert [one.rules for one in scan(chat, rows, spelled=True)] == [("MESSAGE_DROPPED",)]


def test_what_was_read_already_is_taken_too(tokenizer: AutoTokenizer) -> None:
    from prep_lib.chat.conversation import read

    rows = [read(PAIR), read({"query": "q", "response": "a", "label": True}), read({"text": "a"})]
    assert [one.rules for one in scan(ChatTemplate(FULL, tokenizer), rows)] == [(), (), ("RECORD_UNREADABLE",)]


# ---------------------------------------------------------------- all repairs, one upon another


def test_repairs_build_on_one_another(tokenizer: AutoTokenizer) -> None:
    source = without(END, "{{ '\n' }}{% endfor").replace(SAID, "{{ m.content | trim }}")
    made, proofs = repaired(source, tokenizer)
    assert "trim" not in made
    whats = dict.fromkeys(proof.split(":")[0] for proof in proofs)
    assert [*whats][1:] == ["take out the trims", "place generation tags", "all together"]
    assert [*whats][:1] == ["write '<|im_end|>' behind every answer"]
    after = named(diagnose(made, tokenizer, notes=True))
    assert not after & {"EOT_NOT_TRAINED", "CONTENT_TRIMMED", "NO_GENERATION_TAGS"}
    assert after <= named(diagnose(source, tokenizer, notes=True))


def test_what_is_repaired_once_stays_so(tokenizer: AutoTokenizer) -> None:
    made, _ = repaired(TRIMMED, tokenizer)
    assert repaired(made, tokenizer) == (made, ())


def test_data_take_part_in_the_proof(tokenizer: AutoTokenizer) -> None:
    rows: list[Any] = [{"messages": TALK}] * 60 + [{"messages": answered(" a ")}]
    made, proofs = repaired(TRIMMED, tokenizer, rows)
    assert "trim" not in made
    assert proofs[-1].endswith(" is met in 56 conversations any more")  # 40 rows, the one far behind, 15 of ours


def test_of_two_that_do_not_go_together_the_first_is_taken(
    tokenizer: AutoTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module.repair_of
    for second, why in (
        (None, "not proven together with what was changed before"),
        (module.Repair("spoil it", TRIMMED, "", ("seen",)), "would bring back CONTENT_TRIMMED, NO_GENERATION_TAGS"),
    ):
        asked: list[str] = []

        def answer(rule: str, *given: Any, asked: list[str] = asked, second: Any = second) -> Any:
            asked.append(rule)
            return second if asked.count(rule) > 1 and rule == "NO_GENERATION_TAGS" else real(rule, *given)

        monkeypatch.setattr(module, "repair_of", answer)
        made, proofs = repaired(TRIMMED, tokenizer)
        assert made == FULL
        assert proofs[0].startswith("take out the trims: ")
        assert proofs[-1] == f"left out: place generation tags (NO_GENERATION_TAGS): {why}"


def test_the_fixtures_are_sound_when_repaired() -> None:
    for one in fixtures():
        tokenizer = AutoTokenizer(shared(f"tokenizers/{one['tokenizer']}.json"))
        made, proofs = repaired(one["template"], tokenizer)
        before, after = named(diagnose(one["template"], tokenizer)), named(diagnose(made, tokenizer))
        assert after <= before, one["id"]
        assert (made != one["template"]) == bool(proofs), one["id"]


def test_a_stop_token_is_not_made_up_without_a_tokenizer() -> None:
    found = {finding.rule: finding for finding in diagnose(without(END, "{{ '\n' }}{% endfor"))}
    repair = found["EOT_NOT_TRAINED"].repair
    assert repair is not None
    assert repair.template is None


def test_there_is_something_to_repair() -> None:
    with pytest.raises(BadInput, match="no template that parses"):
        repaired("{{")
