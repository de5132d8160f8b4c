import bisect
import pickle
import subprocess
import sys
from collections import Counter, defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadParameter, UnknownName
from prep_lib.tokens.pack import (
    LengthIndex,
    SequencePacker,
    assign,
    compare,
    concat_cuts,
    concat_pieces,
    pack_order,
    pieces,
    plan_packs,
    shuffle_ranks,
    strips,
)

PACK = 12
ROWS = st.lists(st.integers(1, PACK), max_size=60)
LONG_ROWS = st.lists(st.integers(1, 4 * PACK), max_size=40)


def row_wise(lengths, pack_size):
    """Best-fit-decreasing a row at a time: the free spaces of open packs, most of them searched by bisection."""
    spaces, packs = [], 0
    for length in sorted(lengths, reverse=True):
        at = bisect.bisect_left(spaces, length)
        if at == len(spaces):
            packs, space = packs + 1, pack_size
        else:
            space = spaces.pop(at)
        bisect.insort(spaces, space - length)
    return packs, sorted(spaces)


def packs_of(plan):
    """All packs as lists of (length, rank)."""
    at, length, rank = plan.members(np.arange(plan.packs))
    held = defaultdict(list)
    for pack, *piece in zip(at.tolist(), length.tolist(), rank.tolist(), strict=True):
        held[pack].append(tuple(piece))
    return held


# --- best fit -------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(ROWS)
def test_every_row_is_in_exactly_one_pack_and_no_pack_is_too_full(lengths):
    plan = plan_packs(Counter(lengths), PACK)
    held = packs_of(plan)
    assert sorted(held) == list(range(plan.packs))
    assert all(sum(length for length, _ in pack) <= PACK for pack in held.values())
    every = sorted(piece for pack in held.values() for piece in pack)
    assert every == sorted((length, rank) for length, n in Counter(lengths).items() for rank in range(n))
    assert plan.tokens == sum(lengths)
    assert plan.tokens + plan.padding == plan.packs * PACK


@settings(max_examples=100, deadline=None)
@given(ROWS)
def test_the_packs_are_those_of_best_fit_decreasing_row_by_row(lengths):
    plan = plan_packs(Counter(lengths), PACK)
    spaces = sorted(PACK - sum(length for length, _ in pack) for pack in packs_of(plan).values())
    assert (plan.packs, spaces) == row_wise(lengths, PACK)


def test_as_few_packs_as_row_wise_on_chat_like_lengths():
    lengths = np.clip(np.random.default_rng(0).lognormal(np.log(350), 0.9, 20_000), 1, 4096).astype(int)
    plan = plan_packs(np.bincount(lengths), 4096)
    assert plan.packs == row_wise(lengths.tolist(), 4096)[0]
    assert plan.efficiency > 0.999


def test_a_plan_does_not_grow_with_the_number_of_rows():
    counts = np.arange(64) * 10_000_000
    many, few = plan_packs(counts, 64), plan_packs(np.arange(64), 64)
    assert many.tokens == 10_000_000 * few.tokens
    assert len(many.steps) < 3 * 64 * 6


@settings(max_examples=30, deadline=None)
@given(ROWS)
def test_the_same_counts_give_the_same_plan_however_they_are_given(lengths):
    plans = [plan_packs(Counter(order), PACK) for order in (lengths, lengths[::-1])]
    plans += [plan_packs(np.bincount(lengths, minlength=50), PACK), pickle.loads(pickle.dumps(plans[0]))]
    for plan in plans[1:]:
        assert np.array_equal(plan.steps, plans[0].steps)


@settings(max_examples=30, deadline=None)
@given(ROWS, st.data())
def test_members_of_some_packs_are_the_members_of_all_packs_restricted(lengths, data):
    plan = plan_packs(Counter(lengths), PACK)
    asked = data.draw(st.lists(st.integers(0, plan.packs - 1), max_size=8)) if plan.packs else []
    at, length, rank = plan.members(np.array(asked, dtype=np.int64))
    found = [[(int(n), int(k)) for n, k in zip(length[at == i], rank[at == i], strict=True)] for i in range(len(asked))]
    held = packs_of(plan)
    assert found == [held[pack] for pack in asked]
    assert at.tolist() == sorted(at.tolist())


def test_the_longest_piece_of_a_pack_comes_first():
    assert strips(plan_packs({1: 3, 5: 1, 4: 1}, 12), [0]) == [[5, 4, 1, 1, 1]]


def test_rows_longer_than_a_pack_are_counted_as_lost_by_best_fit():
    plan = plan_packs({3: 2, 13: 2}, PACK)
    assert (plan.packs, plan.tokens, plan.lost_documents, plan.lost_tokens) == (1, 6, 2, 26)


@settings(max_examples=50, deadline=None)
@given(LONG_ROWS)
def test_best_fit_split_loses_nothing_and_cuts_only_what_is_too_long(lengths):
    row, start, length = pieces(np.array(lengths, dtype=np.int64), PACK, "best_fit_split")
    rebuilt = defaultdict(list)
    for at, begin, size in zip(row.tolist(), start.tolist(), length.tolist(), strict=True):
        assert begin == sum(rebuilt[at])
        rebuilt[at].append(size)
    assert [sum(rebuilt[at]) for at in range(len(lengths))] == lengths
    assert all(len(rebuilt[at]) == -(-n // PACK) for at, n in enumerate(lengths))
    plan = plan_packs(Counter(lengths), PACK, "best_fit_split")
    of_pieces = plan_packs(np.bincount(length) if len(length) else {}, PACK, "best_fit_split")
    assert np.array_equal(plan.steps, of_pieces.steps)
    assert (plan.tokens, plan.lost_tokens, plan.cut_documents) == (sum(lengths), 0, sum(n > PACK for n in lengths))


def test_dtypes_of_pieces():
    assert [column.dtype for column in pieces(np.array([5]), 4, "best_fit_split")] == [np.int64, np.int64, np.int32]
    assert [column.tolist() for column in pieces(np.array([3, 4]), 4, "best_fit")] == [[0, 1], [0, 0], [3, 4]]


# --- concat ---------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(LONG_ROWS)
def test_concat_pieces_are_the_stream_cut_at_every_border(lengths):
    stream = [(row, token) for row, n in enumerate(lengths) for token in range(n)]
    pack, row, start, length = concat_pieces(np.array(lengths, dtype=np.int64), PACK)
    for number in range(-(-len(stream) // PACK)):
        mine = np.flatnonzero(pack == number)
        tokens = [(int(row[i]), int(start[i]) + step) for i in mine for step in range(length[i])]
        assert tokens == stream[number * PACK : (number + 1) * PACK]
    cut = sum(n > 1 for n in Counter(row.tolist()).values())
    assert concat_cuts(np.array(lengths, dtype=np.int64), PACK) == cut


def test_many_rows_are_counted_block_by_block_as_all_together():
    lengths = np.random.default_rng(0).integers(1, 30, 50_000)
    _, row, start, _ = concat_pieces(lengths, PACK)
    assert concat_cuts(lengths, PACK) == len(np.unique(row[start > 0]))


@settings(max_examples=50, deadline=None)
@given(LONG_ROWS, st.integers(0, 40))
def test_a_file_in_the_middle_of_the_stream_is_cut_as_in_the_whole(lengths, at):
    lengths = np.array(lengths, dtype=np.int64)
    first = int(lengths[:at].sum())
    parts = [concat_pieces(lengths[:at], PACK), concat_pieces(lengths[at:], PACK, first)]
    parts[1] = (parts[1][0], parts[1][1] + len(lengths[:at]), *parts[1][2:])
    joined = [np.concatenate(column).tolist() for column in zip(*parts, strict=True)]
    assert joined == [column.tolist() for column in concat_pieces(lengths, PACK)]


@pytest.mark.parametrize(("tail", "packs", "padding", "lost"), [("pad", 7, 7, 0), ("drop", 6, 0, 9)])
def test_the_tail_of_the_specification(tail, packs, padding, lost):
    # The mini pipeline: a stream of 105 tokens in rows of 16 leaves 9.
    plan = plan_packs({105: 1}, 16, "concat", tail=tail)
    assert (plan.packs, plan.padding, plan.lost_tokens) == (packs, padding, lost)
    assert plan.cut_documents is None
    assert plan.lost_documents == 0


def test_strips_show_the_pieces_in_stream_order():
    lengths = np.array([3, 3, 4, 1])
    assert strips(plan_packs(np.bincount(lengths), 4, "concat"), [2, 0], lengths) == [[2, 1], [3, 1]]
    assert strips(plan_packs(np.bincount(lengths), 4), []) == []


# --- which row is it ------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=5), st.integers(0, 3))
def test_every_row_of_every_file_is_assigned_once(files, seed):
    files = [np.array(lengths, dtype=np.int64) for lengths in files]
    index = LengthIndex([np.bincount(lengths) for lengths in files])
    plan = plan_packs(index.totals, PACK)
    order = pack_order(plan.packs, seed)
    seen, half = [], len(order) // 2
    for packs in (order[:half], order[half:]):  # two shards
        at, file, position, length = assign(plan, index, packs, seed)
        for pack, number, place, size in zip(at, file, position, length, strict=True):
            row = np.argsort(files[number], kind="stable")[place]
            assert files[number][row] == size
            assert pack < len(packs)
            seen.append((int(number), int(row)))
    assert sorted(seen) == [(number, row) for number, lengths in enumerate(files) for row in range(len(lengths))]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(0, 3))
def test_ranks_are_shuffled_inside_each_length(totals, seed):
    length = np.repeat(np.arange(len(totals)), totals)
    rank = np.concatenate([np.arange(n) for n in totals])
    out = shuffle_ranks(np.array(totals), length, rank, seed)
    for size, n in enumerate(totals):
        assert sorted(out[length == size].tolist()) == list(range(n))
    assert np.array_equal(shuffle_ranks(np.array(totals), length[::2], rank[::2], seed), out[::2])


def test_the_order_of_packs_and_rows_must_not_change():
    # Shards are named by these orders: a change here changes the bytes of every packed data set made before.
    assert pack_order(8, 42).tolist() == [1, 2, 7, 3, 6, 5, 0, 4]
    for totals in ([0, 0, 8], [5, 0, 8, 7]):
        ranks = shuffle_ranks(np.array(totals), np.full(8, 2), np.arange(8), 42)
        assert ranks.tolist() == [3, 7, 4, 0, 5, 1, 6, 2]


def test_a_piece_no_file_has_is_refused():
    index = LengthIndex([np.bincount([2, 2])])
    with pytest.raises(BadParameter, match="no file has; plan and index differ in counts"):
        index.locate(np.array([2]), np.array([2]))
    with pytest.raises(BadParameter, match="no file has"):
        index.locate(np.array([9]), np.array([0]))


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plan_packs({1: 1}, 0), "pack_size must be at least 1 token, got 0"),
        (lambda: plan_packs({0: 1}, 4), "a row must have at least 1 token, got length 0"),
        (lambda: plan_packs([2, 1], 4), "a row must have at least 1 token, got length 0"),
        (lambda: plan_packs({3: -1}, 4), "a count must be >= 0, got -1"),
        (lambda: pieces(np.array([5]), 4, "best_fit"), "a row of 5 tokens does not fit a pack of 4"),
        (lambda: pieces(np.array([0]), 4, "best_fit_split"), "got length 0"),
        (lambda: pieces(np.array([1]), 4, "concat"), "use concat_pieces"),
        (lambda: concat_pieces(np.array([0]), 4), "got length 0"),
        (lambda: compare(np.array([0]), 4), "got length 0"),
        (lambda: plan_packs({1: 1}, 4).members([1]), "packs 1 to 1 asked for, but they are 0 to 0"),
        (lambda: plan_packs({1: 1}, 4, "concat").members([0]), "a concat plan has no members"),
        (lambda: strips(plan_packs({1: 1}, 4, "concat"), [0]), "give lengths"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(BadParameter, match=f"tokens/pack: .*{message}"):
        call()


def test_unknown_names_list_the_known_ones():
    with pytest.raises(UnknownName, match="did you mean 'best_fit'\\? known: best_fit, best_fit_split, concat"):
        plan_packs({1: 1}, 4, "bestfit")
    with pytest.raises(UnknownName, match="unknown tail 'cut'; known: drop, pad"):
        plan_packs({1: 1}, 4, "concat", tail="cut")


# --- the widget's table ---------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(LONG_ROWS)
def test_compare_says_what_the_plans_say(lengths):
    rows = {row.algorithm: row for row in compare(np.array(lengths, dtype=np.int64), PACK)}
    assert list(rows) == ["concat", "best_fit", "best_fit_split", "one_row"]
    for name in ("concat", "best_fit", "best_fit_split"):
        plan = plan_packs(Counter(lengths), PACK, name)
        assert (rows[name].packs, rows[name].lost_tokens) == (plan.packs, plan.lost_tokens)
        assert rows[name].padding == pytest.approx(1 - plan.efficiency)
    assert rows["one_row"].packs == sum(n <= PACK for n in lengths)
    assert rows["concat"].cut_documents == concat_cuts(np.array(lengths, dtype=np.int64), PACK)
    assert rows["best_fit_split"].cut_documents == sum(n > PACK for n in lengths)


def test_compare_knows_the_trained_share_of_what_is_kept():
    rows = {row.algorithm: row.trained for row in compare(np.array([3, 1, 5]), 4, trained=np.array([2, 1, 4]))}
    assert rows == {"concat": 7 / 12, "best_fit": 3 / 4, "best_fit_split": 7 / 12, "one_row": 3 / 8}
    assert all(row.trained is None for row in compare(np.array([3]), 4))


def test_one_enormous_row_makes_no_enormous_table():
    rows = compare(np.array([10**12, 3]), 4096)
    assert rows[1].lost_tokens == 10**12
    assert rows[2].lost_tokens == 0


def test_nothing_to_pack():
    for name in ("concat", "best_fit", "best_fit_split"):
        plan = plan_packs({}, 4, name)
        assert (plan.packs, plan.padding, plan.efficiency) == (0, 0, 1.0)
    assert [row.packs for row in compare(np.array([], dtype=np.int64), 4)] == [0, 0, 0, 0]


# --- SequencePacker -------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 999), max_size=20), max_size=12), st.integers(1, 9))
def test_the_packer_keeps_every_token_in_order(sequences, pack_size):
    packs = SequencePacker(pack_size, pad_value=-1).pack(sequences)
    tokens = [token for sequence in sequences for token in sequence]
    joined = [token for pack in packs for token in pack.tolist()]
    assert joined[: len(tokens)] == tokens
    assert set(joined[len(tokens) :]) <= {-1}
    assert len(packs) == -(-len(tokens) // pack_size)
    assert all(pack.shape == (pack_size,) for pack in packs)


def test_the_packer_takes_tensors_arrays_and_lists_together():
    packs = SequencePacker(4).pack([torch.tensor([1, 2], dtype=torch.int32), np.array([3], dtype=np.int16), [4, 5]])
    assert [pack.tolist() for pack in packs] == [[1, 2, 3, 4], [5, 0, 0, 0]]
    assert packs[0].dtype == torch.int64


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (("int32", "int32"), torch.int32),
        (("int32", "int16"), torch.int32),
        (("bool", "bool"), torch.bool),
        (("bool", "int32"), torch.int32),
        (("int32", "float32"), torch.float64),
        (("uint16", "uint16"), torch.int64),
    ],
)
def test_the_packer_unifies_types(dtypes, expected):
    packs = SequencePacker(3).pack([np.ones(2, dtype) for dtype in dtypes])
    assert {pack.dtype for pack in packs} == {expected}
    assert [pack.tolist() for pack in packs] == [[1, 1, 1], [1, 0, 0]]


def test_the_packer_at_its_edges():
    assert SequencePacker(4).pack([]) == []
    assert SequencePacker(4).pack([[], torch.zeros(0)]) == []
    assert SequencePacker(4).pack([[], [1]])[0].tolist() == [1, 0, 0, 0]
    assert SequencePacker(4).pack([[], [1]])[0].dtype == torch.int64


def test_a_pack_has_memory_of_its_own():
    source = torch.arange(4)
    packs = SequencePacker(2).pack([source])
    packs[0][0] = 9
    assert source.tolist() == [0, 1, 2, 3]
    assert packs[1].untyped_storage().nbytes() == 2 * 8


@pytest.mark.parametrize(
    ("sequences", "pad", "message"),
    [
        ([[1], torch.zeros(2, 2)], 0, r"sequence 1 has shape \(2, 2\); each must have one dimension"),
        ([torch.tensor(3)], 0, r"sequence 0 has shape \(\)"),
        ([["a"]], 0, "only numbers and bool"),
        ([np.ones(1, np.uint64), np.ones(1, np.int64)], 0, "no common type"),
        ([np.ones(1, np.uint8)], -100, "pad_value -100 does not fit uint8"),
        ([np.ones(1, bool)], 2, "pad_value 2 does not fit bool"),
        ([[1]], 2**70, "does not fit int64"),
        ([[1]], float("nan"), "pad_value nan does not fit int64"),
    ],
)
def test_the_packer_refuses(sequences, pad, message):
    with pytest.raises(BadParameter, match=message):
        SequencePacker(4, pad).pack(sequences)


def test_a_packer_needs_a_size():
    with pytest.raises(BadParameter, match="pack_size must be at least 1 token, got 0"):
        SequencePacker(0)


def test_importing_the_module_does_not_import_torch():
    code = "import sys, prep_lib.tokens.pack; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
