"""Strategies on a tokenizer a reader can hold in the head: one id a character, one id a control token."""

from __future__ import annotations

import hashlib
import pickle
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.chat import strategy
from prep_lib.chat.strategy import Alpaca, ChatML, FramedStrategy, Piece, PromptStrategy, StrategyFactory, Turn
from prep_lib.errors import BadParameter, BadRecord, UnknownName
from prep_lib.special import CONTROL_TOKENS, EOS, IM_END, IM_START


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

    def decode(self, ids: list[int]) -> str:
        return "".join(self.control[i] if i < 100 else chr(i - 100) for i in ids)

    def describe(self) -> dict[str, str]:
        return {"sha256": hashlib.sha256("".join(self.control).encode()).hexdigest()}


TOKENIZER = Letters()


def turns(*said: tuple[str, str], train: bool = True) -> list[Turn]:
    return [Turn(role, TOKENIZER.encode(text), train and role == "assistant") for role, text in said]


def drawn(pieces: list[Piece]) -> list[tuple[str, bool, int, str]]:
    return [(TOKENIZER.decode(p.ids), p.trained, p.turn, p.part) for p in pieces]


PAIR = turns(("user", "hi"), ("assistant", "yo"))


class Pairs(PromptStrategy):
    name = "pairs"

    def assemble_prompt(self, query_tokens):
        return [200, *query_tokens, 201]

    def assemble_response(self, response_tokens):
        return (*response_tokens, 1, 202)


class Careless(Pairs):
    """As users write it: an __init__ of its own, without super()."""

    name = "careless"

    def __init__(self, tokenizer, sep="|"):
        self.sep = tokenizer.encode(sep)

    def assemble_prompt(self, query_tokens):
        return query_tokens + self.sep


class TestChatML:
    def test_the_drawing_of_the_module(self):
        assert drawn(ChatML(TOKENIZER).pieces(PAIR)) == [
            (f"{IM_START}user\n", False, 0, "start"),
            ("hi", False, 0, "content"),
            (IM_END, False, 0, "stop"),
            ("\n", False, 0, "after"),
            (f"{IM_START}assistant\n", False, 1, "start"),
            ("yo", True, 1, "content"),
            (IM_END, True, 1, "stop"),
            ("\n", False, 1, "after"),
        ]

    def test_train_after_stop_is_the_mask_of_the_specification(self):
        strategy = ChatML(TOKENIZER, train_after_stop=True)
        prompt = strategy.assemble_prompt(PAIR[0].ids)
        response = strategy.assemble_response(PAIR[1].ids)
        ids, mask, _ = strategy.assemble_turns(PAIR)
        assert ids == prompt + response
        assert mask == [False] * len(prompt) + [True] * len(response)

    def test_system_and_tool_follow_from_user_start(self):
        strategy = ChatML(TOKENIZER)
        assert strategy.params["system_start"] == f"{IM_START}system\n"
        assert strategy.params["tool_start"] == f"{IM_START}tool\n"
        said = turns(("system", "s"), ("user", "q"), ("tool", "t"), ("assistant", "a"))
        text = TOKENIZER.decode(strategy.assemble_turns(said)[0])
        expected = [
            f"{IM_START}{r}\n{c}{IM_END}\n"
            for r, c in zip(("system", "user", "tool", "assistant"), "sqta", strict=True)
        ]
        assert text == "".join(expected)

    @pytest.mark.parametrize("user_start", ["Human: ", "user and user: ", "superuser: "])
    def test_a_role_that_cannot_be_derived_is_refused_by_its_turn(self, user_start):
        strategy = ChatML(TOKENIZER, user_start=user_start)
        assert strategy.params["system_start"] is None
        with pytest.raises(
            BadRecord, match="role_unsupported: message 0: role 'system'; chatml knows: assistant, user"
        ):
            strategy.pieces(turns(("system", "s"), ("user", "q")))

    def test_a_derived_marker_that_is_no_token_is_not_used(self):
        strategy = ChatML(Letters((*CONTROL_TOKENS, "<|user|>")), user_start="<|user|>")
        assert strategy.params["system_start"] is None

    def test_system_start_may_be_given_even_empty(self):
        strategy = ChatML(TOKENIZER, user_start="Human: ", system_start="")
        assert TOKENIZER.decode(strategy.assemble_turns(turns(("system", "s")))[0]) == f"s{IM_END}\n"

    def test_same_roles_in_a_row_stay_separate_turns(self):
        said = turns(("user", "a"), ("user", "b"), ("assistant", "c"), ("assistant", "d"))
        pieces = ChatML(TOKENIZER).pieces(said)
        assert [p.turn for p in pieces if p.part == "content"] == [0, 1, 2, 3]
        assert [TOKENIZER.decode(p.ids) for p in pieces if p.trained] == ["c", IM_END, "d", IM_END]

    def test_a_last_question_is_kept_untrained_without_a_generation_prompt(self):
        ids, mask, _ = ChatML(TOKENIZER).assemble_turns([*PAIR, *turns(("user", "more"))])
        assert TOKENIZER.decode(ids).endswith(f"{IM_START}user\nmore{IM_END}\n")
        assert not any(mask[-8:])

    def test_an_untrained_answer_is_context(self):
        assert not any(ChatML(TOKENIZER).assemble_turns(turns(("user", "q"), ("assistant", "a"), train=False))[1])

    def test_control_tokens_in_content_stay_text(self):
        ids, _, _ = ChatML(TOKENIZER).assemble_turns(turns(("user", IM_END), ("assistant", "a")))
        assert ids.count(TOKENIZER.id(IM_END)) == 2


class TestAlpaca:
    def test_exactly_the_table_of_the_specification(self):
        ids, mask, turn = Alpaca(TOKENIZER).assemble_turns(PAIR)
        assert TOKENIZER.decode(ids) == f"### Instruction:\nhi### Response:\nyo{EOS}"
        assert TOKENIZER.decode([i for i, m in zip(ids, mask, strict=True) if m]) == f"yo{EOS}"
        assert turn == [0] * len("### Instruction:\nhi") + [1] * len("### Response:\nyo$")

    def test_a_suffix_of_text_is_a_stop_as_a_whole(self):
        pieces = drawn(Alpaca(TOKENIZER, response_suffix="\n###").pieces(PAIR))
        assert pieces[-1] == ("\n###", True, 1, "stop")

    def test_text_before_the_stop_token_is_trained_with_it(self):
        pieces = drawn(Alpaca(TOKENIZER, response_suffix=f"\n{EOS}\n").pieces(PAIR))
        assert pieces[-2:] == [(f"\n{EOS}", True, 1, "stop"), ("\n", False, 1, "after")]

    def test_pairs_repeat(self):
        ids, _, _ = Alpaca(TOKENIZER).assemble_turns(PAIR + PAIR)
        once, _, _ = Alpaca(TOKENIZER).assemble_turns(PAIR)
        assert ids == once + once


@pytest.mark.parametrize("strategy", [Alpaca(TOKENIZER), Pairs(TOKENIZER)], ids=["alpaca", "custom"])
class TestStrategiesThatSpeakInPairs:
    @pytest.mark.parametrize(
        ("roles", "reason"),
        [
            (["user", "user"], "consecutive_roles: messages 0 and 1: both 'user'"),
            (["user", "assistant", "assistant"], "consecutive_roles: messages 1 and 2: both 'assistant'"),
            (["assistant"], "assistant_first"),
            (["system", "user"], "role_unsupported: message 0: role 'system'"),
            (["user", "tool"], "role_unsupported: message 1: role 'tool'"),
        ],
    )
    def test_other_shapes_are_refused_by_name(self, strategy, roles, reason):
        with pytest.raises(BadRecord, match=reason):
            strategy.pieces(turns(*((role, "x") for role in roles)))

    def test_a_conversation_may_end_with_a_question(self, strategy):
        _, mask, turn = strategy.assemble_turns([*PAIR, *turns(("user", "more"))])
        last = turn.index(2)
        assert any(mask[:last])
        assert not any(mask[last:])


class TestCustomStrategies:
    def test_name_and_two_methods_are_enough(self):
        pieces = Pairs(TOKENIZER).pieces(PAIR)
        assert [(p.trained, p.turn, p.part) for p in pieces] == [
            (False, 0, "start"), (False, 0, "content"), (False, 1, "start"),
            (True, 1, "content"), (True, 1, "stop"), (False, 1, "after"),
        ]  # fmt: skip

    def test_an_init_without_super_works(self):
        strategy = Careless(TOKENIZER, sep="#")
        assert strategy.params == {"sep": "#"}
        assert strategy.assemble_turns(PAIR)[1] == [False] * 3 + [True] * 3 + [False]
        assert pickle.loads(pickle.dumps(Careless(TOKENIZER))).assemble_prompt([7]) == [7, 100 + ord("|")]

    def test_what_an_answer_begins_with_is_trained(self):
        class Thinks(Pairs):
            name = "thinks"

            def assemble_response(self, response_tokens):
                return [300, *response_tokens, 1]

        pieces = Thinks(TOKENIZER).pieces(PAIR)
        assert Piece([300], True, 1, "start") in pieces

    def test_rewritten_content_is_content_as_a_whole(self):
        class Backwards(Pairs):
            name = "backwards"

            def assemble_prompt(self, query_tokens):
                return [200, *query_tokens[::-1]]

        first = Backwards(TOKENIZER).pieces(PAIR)[0]
        assert (first.part, len(first.ids)) == ("content", 3)

    def test_a_child_of_chatml_that_overrides_a_method_has_its_way(self):
        class Short(ChatML):
            name = "short"

            def assemble_response(self, response_tokens):
                return [*response_tokens, 4]

        ids, mask, _ = Short(TOKENIZER).assemble_turns(PAIR)
        assert ids == ChatML(TOKENIZER).assemble_turns(PAIR)[0][:-1]
        assert mask[-1]

    def test_a_table_makes_a_strategy(self):
        class Dialogue(FramedStrategy):
            name = "dialogue"
            defaults = {"ask": "Q:", "answer": "A:", "end": EOS}  # noqa: RUF012
            roles = {"user": ("ask", None), "assistant": ("answer", "end")}  # noqa: RUF012

        assert TOKENIZER.decode(Dialogue(TOKENIZER, ask="?").assemble_turns(PAIR)[0]) == f"?hiA:yo{EOS}"

    def test_without_the_methods_it_cannot_be_made(self):
        class Nothing(PromptStrategy):
            name = "nothing"

        with pytest.raises(TypeError, match="assemble_prompt"):
            Nothing(TOKENIZER)


class TestMarkers:
    @pytest.mark.parametrize("wrong", ["<｜im_end｜>", "<|im_end|>", "<|im▁end|>"])
    def test_a_marker_of_several_ids_names_everything_and_the_near_spelling(self, wrong):
        said = (
            rf"chat/strategy: chatml: user_end: marker '{re.escape(wrong)}' is 10 ids \[160, .*\] in this tokenizer, "
            rf"must be exactly one; did you mean '{IM_END}'\? allow_multi_token=True uses it as text"
        )
        with pytest.raises(BadParameter, match=said):
            ChatML(TOKENIZER, user_end=f"{wrong}\n")

    def test_no_near_spelling_no_suggestion(self):
        with pytest.raises(BadParameter, match=r"must be exactly one; allow_multi_token=True"):
            ChatML(TOKENIZER, user_end="<|eot|>")

    def test_allow_multi_token_lifts_it(self):
        strategy = ChatML(TOKENIZER, assistant_end="<|im_end|>\n", allow_multi_token=True)
        assert drawn(strategy.pieces(PAIR))[-1] == ("<|im_end|>\n", True, 1, "stop")

    def test_the_marks_of_another_tokenizer_are_passed_explicitly(self):
        other = Letters(("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
        with pytest.raises(BadParameter, match=r"user_start: marker .* did you mean '<\|im_start\|>'"):
            ChatML(other)
        strategy = ChatML(
            other, user_start="<|im_start|>user\n", user_end="<|im_end|>\n",
            assistant_start="<|im_start|>assistant\n", assistant_end="<|im_end|>\n",
        )  # fmt: skip
        assert strategy.params["system_start"] == "<|im_start|>system\n"

    def test_other_brackets_warn_once_and_work(self):
        given = {
            "user_start": "<s>user\n",
            "user_end": "</s>\n",
            "assistant_start": "<s>a\n",
            "assistant_end": "</s>\n",
        }
        with pytest.warns(UserWarning, match="chatml: not one id here, used as text: '<s>', '</s>'") as seen:
            strategy = ChatML(TOKENIZER, **given)
        assert len(seen) == 1
        assert drawn(strategy.pieces(PAIR))[-1] == ("</s>\n", True, 1, "stop")

    def test_a_bracket_that_is_one_id_stops_even_if_not_declared_special(self):
        tokenizer = Letters((*CONTROL_TOKENS, "</s>"))
        tokenizer.control_ids -= {5}
        assert ChatML(tokenizer, assistant_end="</s>\n").pieces(PAIR)[-2:] == [
            Piece([5], True, 1, "stop"), Piece([110], False, 1, "after"),
        ]  # fmt: skip

    def test_a_literal_backslash_n_is_refused_with_the_right_spelling(self):
        said = r"user_end: '.*\\\\n' holds a backslash and the letter n.*; a line feed is written '.*>\\n'"
        with pytest.raises(BadParameter, match=said.replace(">", "｜>")):
            ChatML(TOKENIZER, user_end=IM_END + "\\n")

    def test_plain_text_is_exempt(self):
        assert Alpaca(TOKENIZER, instruction_start="### Frage:\n", response_start="")


class TestParameters:
    def test_an_unknown_one_lists_the_known(self):
        known = "allow_multi_token, instruction_start, response_start, response_suffix, train_after_stop"
        with pytest.raises(BadParameter, match=f"alpaca: unknown parameter 'user_start'; known: {known}"):
            StrategyFactory.create("alpaca", TOKENIZER, user_start="x")

    @pytest.mark.parametrize("value", [None, 3, ["x"]])
    def test_a_text_must_be_text(self, value):
        with pytest.raises(BadParameter, match="chatml: user_start must be str, got"):
            ChatML(TOKENIZER, user_start=value)

    def test_a_switch_must_be_a_switch(self):
        with pytest.raises(BadParameter, match="train_after_stop must be True or False, got 'False'"):
            ChatML(TOKENIZER, train_after_stop="False")

    @pytest.mark.parametrize("name", ["chatml", "alpaca"])
    def test_params_as_used_make_the_same_strategy_again(self, name):
        strategy = StrategyFactory.create(name, TOKENIZER, train_after_stop=True)
        again = StrategyFactory.create(name, TOKENIZER, **strategy.params)
        assert again.params == strategy.params
        assert again.assemble_turns(PAIR) == strategy.assemble_turns(PAIR)


class TestFactory:
    def test_names(self):
        assert {"alpaca", "chatml"} <= set(StrategyFactory.names())

    def test_an_unknown_name_lists_the_known(self):
        with pytest.raises(UnknownName, match="unknown strategy 'chat_ml'; did you mean 'chatml'"):
            StrategyFactory.create("chat_ml", TOKENIZER)

    def test_registering(self, monkeypatch):
        monkeypatch.setattr(strategy._STRATEGIES, "_items", dict(strategy._STRATEGIES._items))
        StrategyFactory.register("careless", Careless)
        StrategyFactory.register("careless", Careless)
        assert StrategyFactory.create("careless", TOKENIZER, sep="/").params == {"sep": "/"}
        with pytest.raises(BadParameter, match="careless: got an unexpected keyword argument 'gap'; known: sep"):
            StrategyFactory.create("careless", TOKENIZER, gap="/")
        with pytest.raises(BadParameter, match="'chatml' is taken"):
            StrategyFactory.register("chatml", Careless)
        with pytest.raises(BadParameter, match="must be a subclass of PromptStrategy"):
            StrategyFactory.register("dict", dict)


ROLES = st.sampled_from(["system", "user", "assistant", "tool"])
SAID = st.lists(st.tuples(ROLES, st.text(max_size=4), st.booleans()), max_size=5)


class TestLaws:
    @settings(max_examples=60, deadline=None)
    @given(SAID, st.booleans())
    def test_ids_mask_and_turn_follow_from_the_pieces(self, said, after):
        strategy = ChatML(TOKENIZER, train_after_stop=after)
        talk = [Turn(role, TOKENIZER.encode(text), train and role == "assistant") for role, text, train in said]
        pieces = strategy.pieces(talk)
        ids, mask, turn = strategy.assemble_turns(talk)
        assert TOKENIZER.decode(ids) == "".join(f"{IM_START}{role}\n{text}{IM_END}\n" for role, text, _ in said)
        assert len(ids) == len(mask) == len(turn) == sum(len(p.ids) for p in pieces)
        assert turn == sorted(turn)
        for piece in pieces:
            target = talk[piece.turn].trained and (
                piece.part in ("content", "stop") or (piece.part == "after" and after)
            )
            assert piece.trained == target

    @settings(max_examples=40, deadline=None)
    @given(st.text(max_size=6), st.text(max_size=6), st.sampled_from([ChatML, Alpaca, Pairs]))
    def test_a_pair_is_prompt_plus_response(self, query, response, cls):
        strategy = cls(TOKENIZER)
        talk = turns(("user", query), ("assistant", response))
        prompt, answer = strategy.assemble_prompt(talk[0].ids), list(strategy.assemble_response(talk[1].ids))
        assert strategy.assemble_turns(talk)[0] == prompt + answer
        assert strategy.assemble_turns(talk)[1].index(True) == len(prompt)
