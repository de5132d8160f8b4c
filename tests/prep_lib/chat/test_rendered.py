"""Conversations of a few words through a small ChatML template: rows, counts, turns, pairs, labels, weights."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from prep_lib.chat.mask import Policy, explain
from prep_lib.chat.process import DPOProcessor, KTOProcessor, Processor, ProcessorFactory, SFTProcessor
from prep_lib.chat.row import Row, fit
from prep_lib.chat.strategy import ChatML
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import BadParameter, BadRecord
from prep_lib.record import Conversation, Drop, Message
from prep_lib.special import CONTROL_TOKENS, EOS, IM_END, IM_START
from prep_lib.tokens.tokenizer import AutoTokenizer

WORDS = ["user assistant system tool hi there yes no maybe good bad 你好 tools"] * 9
TOKENIZER = AutoTokenizer().train(WORDS, vocab_size=320, special_tokens=[*CONTROL_TOKENS, "<think>", "</think>"])
CHATML = (
    "{% if tools %}tools {{ tools | tojson }}\n{% endif %}"
    "{% for m in messages %}"
    f"{IM_START}"
    "{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content }}"
    "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}"
    f"{IM_END}\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}"
    f"{IM_START}assistant\n"
    "{% endif %}"
)
TEMPLATE = ChatTemplate(CHATML, TOKENIZER, name="toy")
CALL = {"type": "function", "function": {"name": "f", "arguments": {"n": 3}}}


def sft(**policy: Any) -> SFTProcessor:
    return SFTProcessor(TOKENIZER, TEMPLATE, Policy(**policy))


def one(processor: Processor, record: dict[str, Any]) -> Row:
    (row,) = processor.rows([record])
    assert isinstance(row, Row), row
    assert row.content + row.control + row.eos == row.tokens
    return row


def trained(row: Row, ids: str = "sequence", mask: str = "loss_mask") -> str:
    return TOKENIZER.decode(row.arrays[ids][row.arrays[mask]])


def chat(*said: tuple[str, str]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": text} for role, text in said]}


class TestSFT:
    def test_a_template_says_what_its_strategy_says(self) -> None:
        record = chat(
            ("system", "yes"), ("user", "hi"), ("assistant", "there 你好"), ("user", "no"), ("assistant", "bad")
        )
        by_template, by_strategy = one(sft(), record), one(SFTProcessor(TOKENIZER, ChatML(TOKENIZER)), record)
        for name, array in by_strategy.arrays.items():
            assert np.array_equal(by_template.arrays[name], array), name
        assert np.array_equal(by_template.turn, by_strategy.turn)
        counts = [(row.content, row.control, row.eos) for row in (by_template, by_strategy)]
        assert counts[0] == counts[1]

    def test_every_form_of_record(self) -> None:
        plain = one(sft(), {"query": "hi", "response": "there"})
        shared = {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "there"}]}
        alpaca = {"instruction": "hi", "input": "", "output": "there"}
        for record in (shared, alpaca, {"prompt": "hi", "completion": "there"}):
            assert np.array_equal(one(sft(), record).arrays["sequence"], plain.arrays["sequence"])

    def test_reasoning_and_calls_by_policy(self) -> None:
        messages = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "yes", "reasoning_content": "maybe", "tool_calls": [CALL]},
            {"role": "tool", "content": "3"},
            {"role": "assistant", "content": "good"},
        ]
        record = {"messages": messages, "tools": [{"type": "function", "function": {"name": "f"}}]}
        call = '[{"type": "function", "function": {"name": "f", "arguments": {"n": 3}}}]'
        last = f"good{IM_END}"
        assert trained(one(sft(), record)) == f"<think>maybe</think>yes{call}{IM_END}{last}"
        assert trained(one(sft(reasoning=False), record)) == f"yes{call}{IM_END}{last}"
        assert trained(one(sft(tool_calls=False), record)) == f"<think>maybe</think>yes{last}"
        assert trained(one(sft(answers="last", reasoning=False, tool_calls=False), record)) == f"yes{last}"
        assert trained(one(sft(train_after_stop=True), record)).endswith(f"{IM_END}\n{last}\n")

    def test_flags_and_weights(self) -> None:
        record = chat(("user", "hi"), ("assistant", "yes"), ("user", "hi"), ("assistant", "no"))
        record["messages"][1]["train"] = False
        assert trained(one(sft(), record)) == f"no{IM_END}"
        record["messages"][1] |= {"train": None, "weight": 0.5}
        (refused,) = sft().rows([record])
        assert str(refused) == "weight_refused: messages[1]: a weight that is neither 0 nor 1; ask for weights"
        for strategy in (TEMPLATE, ChatML(TOKENIZER)):
            processor = SFTProcessor(TOKENIZER, strategy, Policy(weights=True))
            row = one(processor, record)
            assert processor.keys == tuple(row.arrays) == ("sequence", "loss_mask", "loss_weight")
            weights = row.arrays["loss_weight"]
            assert weights.dtype == np.float32
            assert sorted(set(weights[row.arrays["loss_mask"]].tolist())) == [0.5, 1.0]
            assert not weights[~row.arrays["loss_mask"]].any()

    @pytest.mark.parametrize(
        ("record", "verdict"),
        [
            ({"messages": []}, Drop("empty")),
            (chat(("user", "hi")), Drop("no_target")),
            (chat(("user", "hi"), ("assistant", "")), Drop("empty_response")),
        ],
    )
    def test_without_a_target_it_goes_by_name(self, record: dict[str, Any], verdict: Drop) -> None:
        assert sft().rows([record]) == [verdict]

    def test_a_template_that_refuses_fails_one_record(self) -> None:
        source = (
            "{% for m in messages %}{{ raise_exception('no system') if m.role == 'system' }}"
            + CHATML[CHATML.index(IM_START) :]
        )
        processor = SFTProcessor(TOKENIZER, ChatTemplate(source, TOKENIZER, name="strict"))
        good = {"query": "hi", "response": "yes"}
        verdicts = processor.rows([good, chat(("system", "s"), ("user", "hi"), ("assistant", "yes")), good])
        assert [type(verdict) for verdict in verdicts] == [Row, BadRecord, Row]
        assert str(verdicts[1]) == "template_failed: jinja: strict, line 1: the template refuses: no system"

    def test_what_cannot_be_proven_is_dropped(self) -> None:
        # The blank that ends the prompt goes into the first token of the answer.
        turns = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        source = turns + "{% if add_generation_prompt %}assistant: {% endif %}"
        tokenizer = AutoTokenizer().train(["user: hi there\nassistant: there hi"] * 50, vocab_size=320)
        processor = SFTProcessor(tokenizer, ChatTemplate(source, tokenizer))
        assert processor.rows([{"query": "hi", "response": "there"}]) == [Drop("border_inside_token")]

    def test_literal_control_tokens_are_text_and_counted(self) -> None:
        row = one(sft(), {"query": f"hi {IM_END}", "response": f"{EOS} yes"})
        assert row.literal_specials == 2
        assert row.eos == 0
        assert row.arrays["sequence"].tolist().count(TOKENIZER.id(IM_END)) == 2

    def test_whole_turns_can_be_cut(self) -> None:
        record = chat(("user", "hi"), ("assistant", "yes"), ("user", "maybe"), ("assistant", "no"))
        row = one(sft(), record)
        short, _ = fit(row, row.tokens - 1, "cut_turns")
        assert isinstance(short, Row)
        assert TOKENIZER.decode(short.arrays["sequence"]).endswith(f"maybe{IM_END}\n")
        assert trained(short) == f"yes{IM_END}"

    def test_rows_do_not_depend_on_their_batch(self) -> None:
        records = [{"query": "hi " * n, "response": "yes " * (1 + n % 3)} for n in range(9)]
        together = sft().rows(records)
        for record, row in zip(records, together, strict=True):
            assert isinstance(row, Row)
            assert np.array_equal(one(sft(), record).arrays["loss_mask"], row.arrays["loss_mask"])

    def test_it_is_what_explain_shows(self) -> None:
        talk = Conversation("", (Message("user", "hi"), Message("assistant", "yes 你好")))
        shown = explain(TEMPLATE, talk, Policy())
        row = one(sft(), chat(("user", "hi"), ("assistant", "yes 你好")))
        assert shown.encoded.ids.tolist() == row.arrays["sequence"].tolist()
        assert shown.mask.tolist() == row.arrays["loss_mask"].tolist()


class TestPairs:
    RECORD = {"query": "hi", "chosen": "good yes", "rejected": "bad"}  # noqa: RUF012

    def test_one_prompt_two_answers(self) -> None:
        by_template = one(DPOProcessor(TOKENIZER, TEMPLATE), self.RECORD)
        by_strategy = one(DPOProcessor(TOKENIZER, ChatML(TOKENIZER)), self.RECORD)
        assert tuple(by_template.arrays) == DPOProcessor.keys
        for name, array in by_strategy.arrays.items():
            assert np.array_equal(by_template.arrays[name], array), name
            assert by_template.arrays[name].dtype == array.dtype

    def test_only_the_answers_are_trained(self) -> None:
        past = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "maybe"}]
        record = {
            "prompt": [*past, {"role": "user", "content": "hi"}],
            "chosen": [{"role": "assistant", "content": "good"}], "rejected": [{"role": "assistant", "content": "bad"}],
        }  # fmt: skip
        for strategy in (TEMPLATE, ChatML(TOKENIZER)):
            row = one(DPOProcessor(TOKENIZER, strategy), record)
            assert trained(row, "chosen", "chosen_mask") == f"good{IM_END}"
            assert trained(row, "rejected", "rejected_mask") == f"bad{IM_END}"
            size = int(row.arrays["prompt_length"][0])
            assert TOKENIZER.decode(row.arrays["rejected"][:size]).endswith(f"{IM_START}assistant\n")

    def test_the_prompt_ends_before_a_thought_that_is_not_trained(self) -> None:
        answers = {
            name: [{"role": "assistant", "content": name, "reasoning_content": thought}]
            for name, thought in (("chosen", "maybe yes"), ("rejected", "no"))
        }
        record = {"prompt": [{"role": "user", "content": "hi"}], **answers}
        row = one(DPOProcessor(TOKENIZER, TEMPLATE, Policy(reasoning=False)), record)
        size = int(row.arrays["prompt_length"][0])
        assert TOKENIZER.decode(row.arrays["chosen"][:size]).endswith(f"{IM_START}assistant\n")
        assert trained(row, "chosen", "chosen_mask") == f"chosen{IM_END}"
        assert trained(row, "rejected", "rejected_mask") == f"rejected{IM_END}"

    def test_nothing_to_prefer(self) -> None:
        processor = DPOProcessor(TOKENIZER, TEMPLATE)
        assert processor.rows([{**self.RECORD, "rejected": "good yes"}]) == [Drop("chosen_equals_rejected")]
        assert processor.rows([{**self.RECORD, "rejected": ""}]) == [Drop("empty_response")]

    def test_an_answer_written_twice_is_refused(self) -> None:
        source = CHATML.replace("{% for m in messages %}", "{{ messages[-1].content }}\n{% for m in messages %}")
        assert DPOProcessor(TOKENIZER, ChatTemplate(source, TOKENIZER)).rows([self.RECORD]) == [
            Drop("answer_in_pieces")
        ]

    def test_a_prompt_that_tells_of_the_answer_is_refused(self) -> None:
        source = CHATML.replace(
            "{% for m in messages %}", "{{ messages[-1].content | length }}\n{% for m in messages %}"
        )
        (verdict,) = DPOProcessor(TOKENIZER, ChatTemplate(source, TOKENIZER)).rows([self.RECORD])
        assert isinstance(verdict, BadRecord)
        assert verdict.reason == "prompt_differs"


class TestKTO:
    def test_the_last_answer_and_its_label(self) -> None:
        record = {**chat(("user", "hi"), ("assistant", "maybe"), ("user", "hi"), ("assistant", "bad")), "label": False}
        for strategy in (TEMPLATE, ChatML(TOKENIZER)):
            row = one(KTOProcessor(TOKENIZER, strategy), record)
            assert trained(row) == f"bad{IM_END}"
            assert row.arrays["label"].tolist() == [0]
            assert row.arrays["label"].dtype == np.int32
        assert one(KTOProcessor(TOKENIZER), {**record, "label": True}).arrays["label"].tolist() == [1]

    def test_without_a_label_it_is_no_such_record(self) -> None:
        (verdict,) = KTOProcessor(TOKENIZER, TEMPLATE).rows([chat(("user", "hi"), ("assistant", "bad"))])
        assert str(verdict) == "other_form: a conversation is nothing for kto"


class TestProcessor:
    def test_by_name(self, tmp_path: Any) -> None:
        (tmp_path / "chat.jinja").write_text(CHATML, "utf-8")
        made = ProcessorFactory.create_named(
            "sft", TOKENIZER, template=str(tmp_path / "chat.jinja"), answers="last", train_after_stop=True
        )
        told = made.describe()
        assert (told["template"]["name"], told["template"]["sha256"]) == ("chat", TEMPLATE.sha256)
        assert told["policy"]["answers"] == "last"
        assert told["strategy"] is None
        assert told["train_after_stop"]

    def test_a_template_without_a_tokenizer_is_refused(self) -> None:
        with pytest.raises(BadParameter, match="template 'bare' was made without a tokenizer"):
            SFTProcessor(TOKENIZER, ChatTemplate(CHATML, name="bare"))

    def test_it_travels(self) -> None:
        record = {"query": "hi", "response": "yes"}
        used = sft()
        used.rows([record])
        again = pickle.loads(pickle.dumps(used))
        assert np.array_equal(one(again, record).arrays["sequence"], one(used, record).arrays["sequence"])
        assert again.describe() == used.describe()


def test_a_row_whose_targets_fall_into_holes_is_dropped() -> None:
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "", "tool_calls": [CALL]}]
    assert sft(tool_calls=False).rows([{"messages": said}]) == [Drop("no_target")]
    assert trained(one(sft(), {"messages": said})).endswith(IM_END)


def test_answers_of_which_the_template_writes_nothing_are_dropped() -> None:
    plain = ChatTemplate(CHATML.replace("if m.reasoning_content", "if false"), TOKENIZER)
    thought = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "", "reasoning_content": "maybe"}]
    lost = [Drop("message_not_rendered")]
    assert SFTProcessor(TOKENIZER, plain).rows([{"messages": thought}]) == lost
    pair = {"prompt": thought[:1], "chosen": thought[1:], "rejected": [{"role": "assistant", "content": "no"}]}
    assert DPOProcessor(TOKENIZER, plain).rows([pair]) == lost
    assert sft(reasoning=False).rows([{"messages": thought}]) == [Drop("no_target")]
    assert trained(one(sft(), {"messages": thought})) == f"<think>maybe</think>{IM_END}"
    trimmed = ChatTemplate(CHATML.replace("m.content", "m.content | trim"), TOKENIZER)
    assert DPOProcessor(TOKENIZER, trimmed).rows([{"query": "hi", "chosen": "yes", "rejected": "  "}]) == lost
