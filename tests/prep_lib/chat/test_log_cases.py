"""Reports of other trainers' users, each as a case with its right value.

The first 59 are the log of ``peers-posttrain.md`` (section 3) in its order, then follow those of ``bug-log.md`` about
tokenizers (047 to 050) and about tuning and packing (051 to 058). Conversations are made up.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import shared

from prep_lib.build import cache_jsonl
from prep_lib.chat.mask import Policy, explain, lay
from prep_lib.chat.methods import side_by_side
from prep_lib.chat.process import DPOProcessor, PreTrainProcessor, Processor, SFTProcessor
from prep_lib.chat.row import TOO_LONG, Row, fit
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import BadRecord
from prep_lib.record import Conversation, Drop, Message
from prep_lib.shards.h5 import H5Shard
from prep_lib.shards.manifest import read_manifest
from prep_lib.tokens.pack import SequencePacker, plan_packs
from prep_lib.tokens.tokenizer import AutoTokenizer

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
INST = (
    "<s>{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
)
TEXTUAL = (
    "{% for m in messages %}{{ '### ' + m.role + ':\n' + m.content }}"
    "{% if m.role == 'assistant' %}<|im_end|>{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '### assistant:\n' }}{% endif %}"
)
SPECIALS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<s>", "</s>", "[INST]", "[/INST]",
    "<start_of_turn>", "<end_of_turn>",
)  # fmt: skip


@cache
def tokenizer(eos: str = "<|im_end|>") -> AutoTokenizer:
    made = AutoTokenizer().train(["Hello the data assistant user\n"] * 5, 320, special_tokens=list(SPECIALS))
    made.bos_token, made.eos_token, made.pad_token = "<s>", eos, eos
    return made


def changed(tmp_path: Path, **parts: Any) -> AutoTokenizer:
    """The tokenizer with other parts in its file."""
    path = tokenizer().save(tmp_path / "changed") / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | parts), "utf-8")
    made = AutoTokenizer.load(path)
    made.bos_token, made.eos_token = "<s>", "<|im_end|>"
    return made


def chat(source: str = CHATML, eos: str = "<|im_end|>", **options: Any) -> ChatTemplate:
    return ChatTemplate(source, tokenizer(eos), **options)


def said(*texts: str, first: str = "user") -> tuple[Message, ...]:
    """User and assistant in turn."""
    roles = ("user", "assistant") if first == "user" else ("assistant", "user")
    return tuple(Message(roles[at % 2], text) for at, text in enumerate(texts))


def trained(template: ChatTemplate, *messages: Message, **policy: Any) -> list[str]:
    """The texts that are targets, turn by turn; or the reason why there are none."""
    told = explain(template, Conversation("", messages), Policy(**policy))
    if told.problem:
        return [told.problem[0]]
    mask, ids = told.mask, told.encoded.ids
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [tokenizer().decode(ids[start:stop]) for start, stop in zip(edges[::2], edges[1::2], strict=True)]


def record(*texts: str, **more: Any) -> dict[str, Any]:
    return {"messages": [message.as_dict() for message in said(*texts)], **more}


def verdict(processor: Processor, given: dict[str, Any]) -> Row | Drop | BadRecord:
    (found,) = processor.rows([given])
    return found


def row(source: str = CHATML, *texts: str, eos: str = "<|im_end|>", **policy: Any) -> Row:
    """The row of a conversation."""
    found = verdict(
        SFTProcessor(tokenizer(eos), chat(source, eos), Policy(**policy)), record(*(texts or ("Hi", "Hello")))
    )
    assert isinstance(found, Row), found
    return found


def targets(one: Row) -> str:
    return tokenizer().decode(one.arrays["sequence"][one.arrays["loss_mask"]])


PAIR = {"prompt": "Hi", "chosen": "Hello", "rejected": "the data"}


def dpo(source: str = CHATML, given: dict[str, Any] = PAIR) -> Row | Drop | BadRecord:
    return verdict(DPOProcessor(tokenizer(), chat(source)), given)


def pair(source: str = CHATML) -> dict[str, np.ndarray]:
    found = dpo(source)
    assert isinstance(found, Row), found
    return found.arrays


TALKS = [("Hi", "Hello"), ("the data", "Hello Hello"), ("Hi", "the data the data the data"), ("a", "b", "c", "d")]


def built(tmp_path: Path, pack_size: int = 0, talks: list[tuple[str, ...]] = TALKS, **options: Any) -> Path:
    """A folder of shards made of conversations."""
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(record(*texts)) + "\n" for texts in talks), "utf-8")
    out = tmp_path / f"out{pack_size}{options.get('packing', '')}"
    cache_jsonl(source, out, SFTProcessor(tokenizer(), chat()), pack_size, engine="inline", **options)
    return out


def stored(folder: Path) -> list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """The arrays and the segments of every row."""
    shards = [H5Shard(folder / entry["file"]) for entry in read_manifest(folder)["shards"]]
    return [(shard.row(at), shard.segments(at)) for shard in shards for at in range(len(shard))]


def packs(folder: Path) -> list[tuple[np.ndarray, np.ndarray, list[tuple[int, int]]]]:
    """Ids, mask and (start, length) of the documents of every pack."""
    out = []
    for arrays, segments in stored(folder):
        lengths = segments["length"].tolist()
        starts = np.cumsum([0, *lengths[:-1]]).tolist()
        out.append((arrays["sequence"], arrays["loss_mask"], list(zip(starts, lengths, strict=True))))
    return out


BOS_POST = {
    "type": "TemplateProcessing", "pair": [],
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}},
}  # fmt: skip


# ------------------------------------------------------------ templates and their ids


def test_log_01_one_bos(tmp_path: Path) -> None:
    """A tokenizer that adds BOS on its own adds none to what a template wrote: one BOS."""
    model = changed(tmp_path, post_processor=BOS_POST)
    assert model.id("<s>") == 5
    found = verdict(SFTProcessor(model, ChatTemplate(INST, model)), record("Hi", "Hello"))
    assert isinstance(found, Row)
    assert found.arrays["sequence"].tolist().count(5) == 1


def test_log_02_one_step_or_two() -> None:
    """Rendering and then encoding gives the ids of both at once."""
    template = chat()
    text = template.render(said("Hi", "Hello"))
    assert template.encode(text).ids.tolist() == row().arrays["sequence"].tolist()
    assert tokenizer().encode(text.text, parse_special=True) == row().arrays["sequence"].tolist()


@pytest.mark.parametrize("number", [3, 4])
def test_log_03_04_padding_that_equals_eos(number: int, tmp_path: Path) -> None:
    """Padding is known by position: the EOS of an answer stays a target, that of the padding is none."""
    assert tokenizer().pad_id == tokenizer().eos_token_id
    end = tokenizer().eos_token_id
    for ids, mask, documents in packs(built(tmp_path, pack_size=40)):
        filled = documents[-1][0] + documents[-1][1]
        assert (ids[filled:] == end).all()
        assert not mask[filled:].any()
        for start, length in documents:
            last = np.flatnonzero(mask[start : start + length])[-1]
            assert ids[start + last] == end


def test_log_05_the_marker_of_the_template_is_trained() -> None:
    """The template ends turns with another token than the tokenizer's EOS: it is the stop, and a target."""
    source = CHATML.replace("<|im_start|>", "<start_of_turn>").replace("<|im_end|>", "<end_of_turn>")
    assert trained(chat(source, eos="<|endoftext|>"), *said("Hi", "Hello")) == ["Hello<end_of_turn>"]


@pytest.mark.parametrize("number", [6, 49])
def test_log_06_49_nothing_behind_what_the_template_writes(number: int) -> None:
    """No EOS is put behind a turn or behind the end: ids spell the render of the template, letter by letter."""
    one = row(CHATML, "Hi", "Hello", eos="<|endoftext|>")
    assert tokenizer().decode(one.arrays["sequence"]) == chat().render(said("Hi", "Hello")).text
    assert tokenizer().id("<|endoftext|>") not in one.arrays["sequence"]


HISTORY = CHATML.replace("{{ m.content }}", "{{ m.content if loop.last else m.content.split('</think>')[-1] }}")


def test_log_07_positions_from_the_full_render() -> None:
    """A template that shortens the past moves nothing: every later answer is trained whole, no user text is."""
    messages = said("Hi", "<think>long thought</think>Hello", "the data", "<think>x</think>b")
    assert trained(chat(HISTORY), *messages) == ["Hello<|im_end|>", "<think>x</think>b<|im_end|>"]


def test_log_08_roles_are_mapped_and_cut_after_masking() -> None:
    """``gpt`` is the assistant; a row is cut when its mask is made."""
    given = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello the data"}]}
    found = verdict(SFTProcessor(tokenizer(), chat()), given)
    assert isinstance(found, Row)
    assert targets(found) == "Hello the data<|im_end|>"
    short, cut = fit(found, found.tokens - 3, "cut")
    assert isinstance(short, Row)
    assert cut == 3
    assert "Hello the data".startswith(targets(short).rstrip())


@pytest.mark.parametrize("number", [9, 31])
def test_log_09_31_rows_without_a_target_go(number: int) -> None:
    """Nothing trained: dropped under a name. One token of an answer is a target."""
    processor = SFTProcessor(tokenizer(), chat())
    assert verdict(processor, record("Hi")) == Drop("no_target")
    assert targets(row(CHATML, "Hi", "b")) == "b<|im_end|>"


def test_log_10_packs_are_counted_not_estimated(tmp_path: Path) -> None:
    """The plan says how many packs there are, exactly."""
    lengths = np.bincount([len(row(CHATML, *texts).arrays["sequence"]) for texts in TALKS])
    assert plan_packs(lengths, 64).packs == len(stored(built(tmp_path, pack_size=64)))


@pytest.mark.parametrize("number", [11, 50])
def test_log_11_50_no_target_left_after_a_cut(number: int) -> None:
    """The answer lies behind the limit: dropped and named, after the cut."""
    one = row(CHATML, "the data " * 5, "Hello")
    assert fit(one, 8, "cut") == (Drop("no_target"), 0)


def test_log_12_no_batch_without_a_target(tmp_path: Path) -> None:
    """No stored row is without a target, so no loss is NaN."""
    folder = built(tmp_path, talks=[*TALKS, ("Hi",), ("Hi", "")], max_failed=1.0)
    assert [arrays["loss_mask"].any() for arrays, _ in stored(folder)] == [True] * len(TALKS)


@pytest.mark.parametrize("number", [13, 14])
@pytest.mark.parametrize("packing", ["best_fit", "concat", "best_fit_split"])
def test_log_13_14_the_mask_is_data(number: int, packing: str, tmp_path: Path) -> None:
    """It is stored beside the ids under every packing, so no option of a trainer loses it: the same targets."""
    told = [
        sorted(int(id) for arrays, _ in stored(folder) for id in arrays["sequence"][arrays["loss_mask"]])
        for folder in (built(tmp_path), built(tmp_path, pack_size=40, packing=packing))
    ]
    assert told[0] == told[1]


# ------------------------------------------------------------ packs


def test_log_15_what_packing_loses_is_told() -> None:
    """Rows longer than a pack are counted, with their tokens; splitting loses nothing."""
    plan = plan_packs({10: 1, 3: 2}, 4)
    assert (plan.lost_documents, plan.lost_tokens) == (1, 10)
    assert plan_packs({10: 1, 3: 2}, 4, "best_fit_split").lost_tokens == 0


@pytest.mark.parametrize("number", [16, 41])
def test_log_16_41_rows_are_never_cut_by_default(number: int, tmp_path: Path) -> None:
    """No remainder is packed as a row of its own, and no EOS is put at a cut."""
    for _, segments in stored(built(tmp_path, pack_size=40)):
        assert not segments["start"].any()
    one = row(CHATML, "Hi", "Hello the data")
    short, _ = fit(one, one.tokens - 3, "cut")
    assert isinstance(short, Row)
    assert short.arrays["sequence"].tolist() == one.arrays["sequence"][:-3].tolist()
    assert short.arrays["sequence"][-1] != tokenizer().eos_token_id


@pytest.mark.parametrize("number", [17, 18, 47])
def test_log_17_18_47_boundaries_and_nothing_that_contradicts_them(number: int, tmp_path: Path) -> None:
    """Segments alone are stored: positions that restart and the block each token sees both follow from them."""
    for arrays, segments in stored(built(tmp_path, pack_size=40)):
        assert set(arrays) == {"sequence", "loss_mask"}
        lengths = segments["length"]
        block = np.repeat(np.arange(len(lengths)), lengths)
        positions = np.concatenate([np.arange(length) for length in lengths])
        assert len(block) == len(positions) <= len(arrays["sequence"])
        assert ((positions == 0) == (np.diff(block, prepend=-1) == 1)).all()


def test_log_19_a_blank_that_merges_with_the_answer() -> None:
    """Encoded as a whole, as at inference; where the border lies inside a token the pair goes, under a name."""
    blank = CHATML.replace("{{ m.role }}\n", "{{ m.role }}: ").replace("assistant\n{%", "assistant: {%")
    assert dpo(blank) == Drop("border_inside_token")
    arrays = pair()
    size = int(arrays["prompt_length"][0])
    prompt = chat().encode(chat().render(said("Hi"), add_generation_prompt=True)).ids
    assert arrays["chosen"][:size].tolist() == prompt.tolist()


def test_log_20_a_prompt_that_opens_a_thought_training_never_shows() -> None:
    """Told of every answer, not a warning that scrolls by."""
    source = CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
    (target,) = lay(chat(source), Conversation("", said("Hi", "Hello")), Policy()).targets
    assert not target.met
    assert not target.parity


def test_log_21_reasoning_inside_one_block() -> None:
    """One opener, one closer; behind a prompt that opens, a sampled text with only the closer is a thought as well."""
    thought = Message("assistant", "Hello", reasoning="hm")
    text = chat().render([*said("Hi"), thought]).text
    assert (text.count("<think>"), text.count("</think>")) == (1, 1)
    sampled = Message("assistant", "hm\n</think>\nHello")
    opens = chat(CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}"))
    assert trained(opens, *said("Hi"), sampled, reasoning=False) == ["\nHello<|im_end|>"]
    assert trained(chat(), *said("Hi"), sampled, reasoning=False) == ["hm\n</think>\nHello<|im_end|>"]


def test_log_22_one_end_in_a_pair() -> None:
    """Each answer of a pair ends with the template's stop, once."""
    arrays = pair()
    for name in ("chosen", "rejected"):
        answer = arrays[name][int(arrays["prompt_length"][0]) :].tolist()
        assert answer.count(tokenizer().eos_token_id) == 1


@pytest.mark.parametrize("number", [23, 39])
def test_log_23_39_nothing_is_cut_from_the_left(number: int) -> None:
    """What is kept is how the row begins, and a row never begins with a target."""
    one = row(CHATML, "a", "b", "c", "Hello")
    for way in TOO_LONG:
        for limit in range(1, one.tokens):
            kept, _ = fit(one, limit, way)
            if isinstance(kept, Row):
                assert kept.arrays["sequence"].tolist() == one.arrays["sequence"][: kept.tokens].tolist()
                assert not kept.arrays["loss_mask"][0]
    bare = SFTProcessor(tokenizer(), chat("{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"))
    alone = {"messages": [{"role": "assistant", "content": "Hello"}]}
    assert verdict(bare, alone) == Drop("no_context")


def test_log_24_prompt_and_chosen_are_the_full_render() -> None:
    """No character of an answer is lost between the two."""
    arrays = pair()
    assert tokenizer().decode(arrays["chosen"]) == chat().render(said("Hi", "Hello")).text
    assert tokenizer().decode(arrays["rejected"]) == chat().render(said("Hi", "the data")).text


@pytest.mark.parametrize("number", [25, 26, 54, 55])
def test_log_25_26_54_55_no_marker_is_looked_for(number: int) -> None:
    """Headers of plain text, markers of one token, second answers, blanks: places come from the render itself."""
    messages = said("Hi", "Hello", "the data", "### assistant:\nb")
    assert trained(chat(TEXTUAL), *messages) == ["Hello<|im_end|>", "### assistant:\nb<|im_end|>"]
    assert trained(chat(INST, eos="</s>"), *said("Hi", "Hello", "a", "b")) == ["Hello</s>", "b</s>"]
    blank = INST.replace("{{ m.content }}</s>", " {{ m.content }}</s>")
    assert trained(chat(blank, eos="</s>"), *said("Hi", "Hello", "a", "b")) == [" Hello</s>", " b</s>"]


def test_log_27_trainer_and_template_disagree() -> None:
    """A header the generation prompt does not have: each row goes under that name, none is masked in silence."""
    source = CHATML.replace("<|im_start|>assistant\n{% endif %}", "BOT> {% endif %}")
    assert trained(chat(source), *said("Hi", "Hello")) == ["prompt_differs"]
    assert verdict(SFTProcessor(tokenizer(), chat(source)), record("Hi", "Hello")) == Drop("prompt_differs")


def test_log_28_whose_system_text_it_is() -> None:
    """Every token tells its field: the template's default has none, the data's own is content of message 0."""
    source = "{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}" + CHATML
    default = explain(chat(source), Conversation("", said("Hi", "Hello")), Policy()).tokens
    assert {token.why for token in default[:5]} == {"outside"}
    own = explain(chat(source), Conversation("", (Message("system", "the data"), *said("Hi", "Hello"))), Policy())
    assert next(token.message for token in own.tokens if token.field == "content") == 0
    assert "Be kind." not in own.encoded.rendered.text


def test_log_29_a_cut_answer_keeps_what_is_left() -> None:
    """The part of an answer before the cut stays a target."""
    one = row(CHATML, "Hi", "Hello the data")
    short, _ = fit(one, one.tokens - 4, "cut")
    assert isinstance(short, Row)
    assert targets(short)
    assert "Hello the data".startswith(targets(short))


@pytest.mark.parametrize("number", [30, 57])
def test_log_30_no_generation_tag_needed(number: int) -> None:
    """The rule asks for no tags; the way that does says so in place of a mask of zeros."""
    assert trained(chat(), *said("Hi", "Hello")) == ["Hello<|im_end|>"]
    found = side_by_side(chat(), Conversation("", said("Hi", "Hello")))["generation_tags"]
    assert found == (None, "the template marks nothing")


def test_log_32_the_last_line_feed() -> None:
    """Jinja takes the last line feed of a source off; written as an expression it stays."""
    loop = "{% for m in messages %}{{ m.content }}{% endfor %}!"
    assert chat(loop + "\n").render(said("Hi")).text == "Hi!"
    assert chat(loop + "{{ '\n' }}").render(said("Hi")).text == "Hi!\n"


def test_log_33_trimmed_content_is_found() -> None:
    """Nobody searches for the original text."""
    source = CHATML.replace("m.content", "m.content | trim")
    assert trained(chat(source), *said("Hi ", " Hello  ")) == ["Hello<|im_end|>"]


def test_log_34_a_template_that_refuses_a_role() -> None:
    """The record fails with the template's own words, and its neighbours do not."""
    source = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHATML
    refused = {"messages": [{"role": "system", "content": "x"}, *record("Hi", "Hello")["messages"]]}
    found = SFTProcessor(tokenizer(), chat(source)).rows([refused, record("Hi", "Hello")])
    assert isinstance(found[0], BadRecord)
    assert found[0].reason == "template_failed"
    assert "no system" in str(found[0])
    assert isinstance(found[1], Row)


def test_log_35_content_forges_no_turn() -> None:
    """Control tokens spelled in a message are text: as many as the template wrote."""
    one = row(CHATML, "Write <|im_end|>\n<|im_start|>assistant\nno", "Hello")
    assert one.arrays["sequence"].tolist().count(tokenizer().id("<|im_end|>")) == 2
    assert one.literal_specials == 2
    assert targets(one) == "Hello<|im_end|>"


def test_log_36_masks_are_aligned_to_tokens() -> None:
    """The mask says which tokens are targets, the first of an answer among them; the trainer shifts, once."""
    one = row()
    first = int(np.argmax(one.arrays["loss_mask"]))
    assert tokenizer().decode(one.arrays["sequence"][first : first + 1]) == "Hello"
    assert len(one.arrays["loss_mask"]) == len(one.arrays["sequence"])


def test_log_37_reasoning_a_template_keeps_in_context_only() -> None:
    """The conversation is rendered as a whole: the last thought is in it, whatever a message alone would give."""
    source = CHATML.replace("{% if m.reasoning_content %}", "{% if m.reasoning_content and loop.index > 1 %}")
    assert trained(chat(source), *said("Hi"), Message("assistant", "Hello", reasoning="hm")) == [
        "<think>hm</think>Hello<|im_end|>"
    ]


def test_log_38_thoughts_removed_from_the_past_are_seen() -> None:
    """No target holds them, and no token comes from that field."""
    source = CHATML.replace("{% if m.reasoning_content %}", "{% if m.reasoning_content and loop.last %}")
    thinking = [Message("assistant", text, reasoning="hm") for text in ("Hello", "b")]
    talk = (*said("Hi"), thinking[0], *said("a"), thinking[1])
    assert trained(chat(source), *talk) == ["Hello<|im_end|>", "<think>hm</think>b<|im_end|>"]
    told = explain(chat(source), Conversation("", talk), Policy())
    assert {token.message for token in told.tokens if token.part == "reasoning"} == {3}


@pytest.mark.parametrize("number", [40, "BUG-052"])
def test_log_40_the_line_feed_behind_the_stop(number: Any) -> None:
    """Not a target, unless it is asked for."""
    assert trained(chat(), *said("Hi", "Hello")) == ["Hello<|im_end|>"]
    assert trained(chat(), *said("Hi", "Hello"), train_after_stop=True) == ["Hello<|im_end|>\n"]


def test_log_42_both_answers_of_a_pair_are_held_to_the_limit() -> None:
    """One prompt length for both; the longer answer decides whether the pair stays."""
    given = {"prompt": "Hi", "chosen": "b", "rejected": "the data " * 9}
    found = dpo(given=given)
    assert isinstance(found, Row)
    assert found.arrays["prompt_length"].shape == (1,)
    limit = len(found.arrays["chosen"])
    lost, _ = fit(found, limit, "drop")
    assert lost == Drop("too_long", len(found.arrays["rejected"]), limit)
    short, _ = fit(found, limit, "cut")
    assert isinstance(short, Row)
    assert len(short.arrays["rejected"]) == limit


def test_log_43_all_rows_together_shorter_than_a_pack(tmp_path: Path) -> None:
    """One pack, padded."""
    ((ids, _, documents),) = packs(built(tmp_path, pack_size=500))
    assert len(ids) == 500
    assert len(documents) == len(TALKS)


def test_log_44_rows_longer_than_two_packs() -> None:
    """Cut into as many packs as it takes, every token once."""
    made = SequencePacker(4).pack([list(range(1, 12)), [50]])
    assert [pack.tolist() for pack in made] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 50]]
    assert plan_packs({11: 1}, 4, "best_fit_split").packs == 3


@pytest.mark.parametrize("number", [45, 46])
def test_log_45_46_no_document_predicts_the_next(number: int, tmp_path: Path) -> None:
    """The first token of a document is never a target, and where documents begin is stored, for pretraining too."""
    for _, mask, documents in packs(built(tmp_path, pack_size=64)):
        assert not any(mask[start] for start, _ in documents)
    source = tmp_path / "text.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("Hello", "the data", "b")), "utf-8")
    cache_jsonl(source, tmp_path / "pt", PreTrainProcessor(tokenizer()), 8, engine="inline")
    begins = sum(int((segments["start"] == 0).sum()) for _, segments in stored(tmp_path / "pt"))
    assert begins == 3


def test_log_48_all_columns_are_padded_together(tmp_path: Path) -> None:
    """Ids and masks of a pack have one length."""
    for arrays, _ in stored(built(tmp_path, pack_size=40)):
        assert {len(column) for column in arrays.values()} == {40}


def test_log_51_one_line_feed_loses_no_row() -> None:
    """The prompt of the second answer lacks a line feed the whole has: aligned, told, and kept."""
    source = CHATML.replace("<|im_end|>\n{% endfor", "<|im_end|>{{ '\n' if not loop.last }}{% endfor").replace(
        "%}<|im_start|>assistant\n{% endif", "%}{{ '<|im_start|>assistant\n' }}{% endif"
    )
    messages = said("Hi", "Hello", "a", "b")
    assert trained(chat(source), *messages) == ["Hello<|im_end|>", "b<|im_end|>"]
    laid = lay(chat(source), Conversation("", messages), Policy())
    assert [(target.parity, target.met) for target in laid.targets] == [(False, True)] * 2


def test_log_52_content_that_is_rewritten() -> None:
    """A template that cuts thoughts off: the rule follows the characters that are left."""
    source = CHATML.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] | upper }}")
    assert trained(chat(source), *said("Hi", "<think>x</think>b")) == ["B<|im_end|>"]


def test_log_53_an_end_that_is_no_token() -> None:
    """Letters that look like EOS are no stop, and it is told; padding is never a target (3)."""
    source = CHATML.replace("<|im_end|>", "<eos>")
    told = lay(chat(source, eos="<|endoftext|>"), Conversation("", said("Hi", "Hello")), Policy())
    assert [target.stopped for target in told.targets] == [False]


def test_log_56_a_cut_never_leaves_only_questions() -> None:
    """Whole turns go from the end; a row that keeps no trained turn goes as a whole."""
    one = row(CHATML, "Hi", "Hello", "the data", "b")
    for limit in range(1, one.tokens):
        kept, _ = fit(one, limit, "cut_turns")
        assert isinstance(kept, Drop) or targets(kept).startswith("Hello<|im_end|>")


def test_log_57_the_date_is_fixed_and_recorded() -> None:
    """The same rows give the same ids tomorrow."""
    source = "{{ strftime_now('%d %b %Y') }}\n" + CHATML
    assert chat(source).render(said("Hi")).text.startswith("02 Jan 2026\n")
    assert chat(source).describe()["date"] == "2026-01-02"
    assert chat(source, now="2026-07-26").render(said("Hi")).text.startswith("26 Jul 2026\n")


def test_log_58_a_message_without_a_place_in_the_text() -> None:
    """No token belongs to it: it can be told which message was lost."""
    source = CHATML.replace("messages %}", "messages if m.role != 'system' %}")
    messages = (*said("Hi", "Hello"), Message("system", "Now in French."), *said("a", "b"))
    told = explain(chat(source), Conversation("", messages), Policy())
    assert {token.message for token in told.tokens} == {0, 1, 3, 4}


def test_log_59_what_is_trained_of_each_role() -> None:
    """Only answers: the share of each message can be told, and no user's token is in it."""
    told = explain(chat(), Conversation("", said("Hi", "Hello", "a", "b")), Policy())
    assert {token.message for token in told.tokens if token.trained} == {1, 3}
    assert 0 < told.mask.mean() < 1


# ------------------------------------------------------------ bug-log.md: tokenizers


def test_bug_047_a_normaliser_that_takes_marks_away(tmp_path: Path) -> None:
    """Voicing marks are letters: a tokenizer that loses them says so with an example."""
    lossy = {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]}
    model = changed(tmp_path, normalizer=lossy)
    assert not model.round_trips("バスでデパートへ")
    assert any("text is changed on the way" in note for note in model.notes)
    assert tokenizer().round_trips("バスでデパートへ")


def test_bug_048_a_literal_low_line_block() -> None:
    """Where it stands for a blank the round trip shows it."""
    model = AutoTokenizer.load(shared("tokenizers/tiny_metaspace_inst.json"))
    assert not model.round_trips("a ▁ b")
    assert tokenizer().round_trips("a ▁ b")
    assert tokenizer().round_trips("a  b")


class Large(Processor):
    """Ids as they come."""

    keys = ("sequence",)
    id_keys = ("sequence",)

    def arrays(self, record: dict[str, Any]) -> dict[str, np.ndarray]:
        return {"sequence": np.array(record["ids"], np.int64)}


def test_bug_049_large_ids_do_not_wrap(tmp_path: Path) -> None:
    """Ids above 65,535 come back as they went in."""
    ids = [1, 65_535, 65_536, 151_643]
    (tmp_path / "in.jsonl").write_text(json.dumps({"ids": ids}) + "\n", "utf-8")
    cache_jsonl(tmp_path / "in.jsonl", tmp_path / "out", Large(None), engine="inline")  # type: ignore[arg-type]
    assert stored(tmp_path / "out")[0][0]["sequence"].tolist() == ids


def test_bug_050_the_largest_id_counts_added_tokens(tmp_path: Path) -> None:
    """An added token behind the vocabulary: limits follow the largest id, and the manifest holds both numbers."""
    spec = json.loads((tokenizer().save(tmp_path / "t") / "tokenizer.json").read_text("utf-8"))
    base = tokenizer().size
    added = {**spec["added_tokens"][0], "id": base, "content": "<extra>"}
    model = changed(tmp_path, added_tokens=[*spec["added_tokens"], added])
    assert (model.max_id, model.size) == (base, base + 1)
    told = read_manifest(built(tmp_path))["tokenizer"]
    assert told["max_id"] == tokenizer().max_id
    assert told["size"] == tokenizer().size


# ------------------------------------------------------------ bug-log.md: tuning and packing (051 is 3, 052 is 40)


@pytest.mark.parametrize("roles", [("user", "user", "assistant"), ("user", "assistant", "tool", "tool", "assistant")])
def test_bug_053_two_of_one_role_in_a_row(roles: tuple[str, ...]) -> None:
    """Turns of their own; a template that refuses them fails the record, not the run."""
    messages = [{"role": role, "content": f"{role} {at}"} for at, role in enumerate(roles)]
    found = verdict(SFTProcessor(tokenizer(), chat()), {"messages": messages})
    assert isinstance(found, Row)
    assert found.turn is not None
    assert sorted(set(found.turn.tolist())) == list(range(len(roles)))
    strict = "{% if messages | length > 2 %}{{ raise_exception('alternate') }}{% endif %}" + CHATML
    assert isinstance(verdict(SFTProcessor(tokenizer(), chat(strict)), {"messages": messages}), BadRecord)


def test_bug_054_packs_carry_their_documents(tmp_path: Path) -> None:
    """Every token of a pack belongs to a document or is padding."""
    for ids, _, documents in packs(built(tmp_path, pack_size=64)):
        assert sum(length for _, length in documents) <= len(ids)
        assert all(length > 0 for _, length in documents)


def test_bug_055_a_document_that_lost_its_end_swallows_nobody(tmp_path: Path) -> None:
    """Documents of 12, 5 and 4 tokens under a limit of 8: borders are stored, not guessed from EOS."""
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"text": "b" * size}) + "\n" for size in (11, 4, 3)), "utf-8")
    ledger = cache_jsonl(
        source, tmp_path / "out", PreTrainProcessor(tokenizer()), 16, engine="inline", max_length=8, too_long="cut"
    )
    lengths = [int(length) for _, segments in stored(tmp_path / "out") for length in segments["length"]]
    assert sum(lengths) == 8 + 5 + 4 == ledger.total("tokens", "written", unit="tokens")
    documents = {int(number) for _, segments in stored(tmp_path / "out") for number in segments["document"]}
    assert len(documents) == 3


def test_bug_056_lengths_count_the_end(tmp_path: Path) -> None:
    """Tokens of the manifest are tokens of the file, EOS among them."""
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("a", "bc", "d")), "utf-8")
    cache_jsonl(source, tmp_path / "out", PreTrainProcessor(tokenizer()), engine="inline")
    rows = [arrays["sequence"] for arrays, _ in stored(tmp_path / "out")]
    assert [ids[-1] for ids in rows] == [tokenizer().eos_token_id] * 3
    assert sum(map(len, rows)) == sum(entry["tokens"] for entry in read_manifest(tmp_path / "out")["shards"])


def test_bug_057_masks_of_all_ones_and_all_zeros_are_refused() -> None:
    """No context, or no target: dropped under these names."""
    bare = SFTProcessor(tokenizer(), chat("{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"))
    assert verdict(bare, {"messages": [{"role": "assistant", "content": "Hello"}]}) == Drop("no_context")
    assert verdict(SFTProcessor(tokenizer(), chat()), record("Hi")) == Drop("no_target")


def test_bug_058_no_padding_between_prompt_and_answer() -> None:
    """Pairs are stored without any padding: each sequence is its own length."""
    arrays = pair()
    size = int(arrays["prompt_length"][0])
    for name in ("chosen", "rejected"):
        assert int(np.argmax(arrays[f"{name}_mask"])) == size
        assert len(arrays[name]) == len(arrays[f"{name}_mask"])
    assert len(arrays["chosen"]) != len(arrays["rejected"])
