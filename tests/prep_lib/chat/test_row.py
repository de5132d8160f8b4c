"""Rows of a few letters under a limit, and what each way of keeping them loses."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.chat.row import TOO_LONG, Loss, Row, check_fit, fit, simulate
from prep_lib.errors import BadParameter
from prep_lib.record import Drop


def row(turns: list[int], mask: list[bool]) -> Row:
    arrays = {"sequence": np.arange(len(turns), dtype=np.int32), "loss_mask": np.array(mask)}
    return Row(arrays, len(turns), 0, 0, np.array(turns, dtype=np.int32))


class TestFit:
    #         u  u  a      a     u  a     a
    TALK = row([0, 0, 1, 1, 2, 3, 3], [False, False, True, True, False, True, True])

    def kept(self, *how) -> tuple[object, int]:
        verdict, cut = fit(self.TALK, *how)
        return (verdict if isinstance(verdict, Drop) else verdict.arrays["sequence"].tolist()), cut

    def test_what_fits_is_left_alone(self):
        assert fit(self.TALK, 7) == (self.TALK, 0)
        assert fit(self.TALK, None)[0] is self.TALK

    def test_drop_is_the_default(self):
        assert self.kept(6) == (Drop("too_long", 7, 6), 0)

    def test_cut_takes_the_right_end_and_adds_nothing(self):
        assert self.kept(6, "cut") == ([0, 1, 2, 3, 4, 5], 1)
        short, _ = fit(self.TALK, 6, "cut")
        assert len(short.arrays["loss_mask"]) == len(short.turn) == 6
        assert short.content == 7

    def test_a_cut_that_leaves_no_target_drops(self):
        assert self.kept(2, "cut") == (Drop("no_target"), 0)

    def test_cut_turns_takes_whole_turns(self):
        assert self.kept(6, "cut_turns") == ([0, 1, 2, 3, 4], 2)
        assert self.kept(4, "cut_turns") == ([0, 1, 2, 3], 3)
        assert self.kept(3, "cut_turns") == (Drop("too_long", 7, 3), 0)
        assert self.kept(1, "cut_turns") == (Drop("too_long", 7, 1), 0)

    def test_rows_without_turns_have_none_to_cut(self):
        one = Row({"sequence": np.arange(7, dtype=np.int32)}, 6, 0, 1)
        assert fit(one, 3, "cut_turns")[0] == Drop("too_long", 7, 3)
        assert fit(one, 3, "cut")[0].arrays["sequence"].tolist() == [0, 1, 2]

    def test_a_pair_is_measured_and_cut_together(self):
        def answer(*ids: int) -> tuple[np.ndarray, np.ndarray]:
            return np.array([8, 9, *ids, 1], np.int32), np.array([False, False, *(True for _ in ids), True])

        (chosen, yes), (rejected, no) = answer(2, 2, 3), answer(2, 2, 4, 4, 4)
        arrays = {"chosen": chosen, "chosen_mask": yes, "rejected": rejected, "rejected_mask": no}
        pair = Row({**arrays, "prompt_length": np.array([2], np.int32)}, 14, 0, 0, ids=("chosen", "rejected"))
        prompt, longest = 2, 8
        assert fit(pair, longest - 1)[0] == Drop("too_long", longest, longest - 1)
        short, cut = fit(pair, prompt + 3, "cut")
        assert cut == pair.tokens - 2 * (prompt + 3) == pair.tokens - short.tokens
        assert len(short.arrays["rejected_mask"]) == len(short.arrays["rejected"]) == prompt + 3
        assert int(short.arrays["prompt_length"][0]) == prompt
        assert fit(pair, prompt + 2, "cut")[0] == Drop("chosen_equals_rejected")
        assert fit(pair, prompt, "cut")[0] == Drop("no_target")

    def test_only_what_belongs_to_the_tokens_is_cut(self):
        own = Row({"sequence": np.arange(4), "weight": np.ones(4), "source": np.arange(9)}, 4, 0, 0)
        short, _ = fit(own, 2, "cut")
        assert [len(array) for array in short.arrays.values()] == [2, 2, 9]

    def test_unknown_values(self):
        with pytest.raises(BadParameter, match="too_long must be one of drop, cut_turns, cut, got 'split'"):
            check_fit(8, "split")
        with pytest.raises(BadParameter, match="max_length must be at least 1 token or None for no limit, got 0"):
            fit(self.TALK, 0)

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=5), st.integers(1, 16))
    def test_nothing_is_lost_unseen(self, spans, limit):
        turns = [at for at, (size, _) in enumerate(spans) for _ in range(size)]
        talk = row(turns, [flag for size, flag in spans for _ in range(size)])
        for how in TOO_LONG:
            verdict, cut = fit(talk, limit, how)
            if isinstance(verdict, Drop):
                assert cut == 0
                continue
            assert verdict.tokens + cut == talk.tokens
            assert verdict.tokens <= limit or cut == 0
            assert len(verdict.arrays["loss_mask"]) == len(verdict.turn) == verdict.tokens


class TestSimulate:
    def test_by_hand(self):
        #              u  u  a     a     u  a     a
        talk = row([0, 0, 1, 1, 2, 3, 3], [False, False, True, True, False, True, True])
        drop, turns, cut = simulate([talk, row([0, 1], [False, True])], [6])
        assert drop == Loss("drop", 6, 2, 3, 9, 5, rows_dropped=1, answers_lost=2, tokens_lost=7, targets_lost=4)
        assert turns == Loss("cut_turns", 6, 2, 3, 9, 5, answers_lost=1, tokens_lost=2, targets_lost=2)
        assert cut == Loss("cut", 6, 2, 3, 9, 5, answers_cut=1, tokens_lost=1, targets_lost=1)

    def test_both_answers_of_a_pair_count(self):
        mask = np.array([False, True, True])
        ids = np.arange(3, dtype=np.int32)
        pair = Row(
            {"chosen": ids, "chosen_mask": mask, "rejected": ids + 9, "rejected_mask": mask}, 6, 0, 0,
            ids=("chosen", "rejected"),
        )  # fmt: skip
        (cut,) = simulate([pair], [2], ["cut"])
        assert (cut.answers, cut.answers_cut, cut.tokens, cut.tokens_lost, cut.targets_lost) == (2, 2, 6, 2, 2)

    def test_nothing_in_nothing_lost(self):
        assert simulate([], [5], ["cut"]) == [Loss("cut", 5)]
        with pytest.raises(BadParameter, match="chat/row: max_length must be at least 1"):
            simulate([], [0])

    @given(st.lists(st.lists(st.booleans(), min_size=1, max_size=12), max_size=6), st.integers(1, 13))
    def test_it_tells_what_fit_does(self, masks, limit):
        rows = [row(list(range(len(mask))), mask) for mask in masks]
        for loss in simulate(rows, [limit]):
            kept = [verdict for one in rows if isinstance(verdict := fit(one, limit, loss.too_long)[0], Row)]
            assert loss.rows - loss.rows_dropped == len(kept)
            assert loss.tokens - loss.tokens_lost == sum(one.tokens for one in kept)
            assert loss.targets - loss.targets_lost == sum(int(one.arrays["loss_mask"].sum()) for one in kept)
            assert all(value >= 0 for name, value in asdict(loss).items() if name != "too_long")
