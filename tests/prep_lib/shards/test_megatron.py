"""Megatron's files hold whole documents, in their order, whatever packs they were cut into."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_shards import DOCUMENTS, PACKS, megatron_documents, store

from prep_lib.errors import BadInput, BadParameter, BadShard
from prep_lib.shards import megatron
from prep_lib.shards.interop import convert
from prep_lib.shards.megatron import blend_line, file_names, index_bytes


def test_megatron_gets_whole_documents_a_pair_of_files_a_source_and_language(tmp_path):
    told = convert(store(tmp_path / "in"), "megatron", tmp_path / "out")
    assert megatron_documents(tmp_path / "out") == {
        ("web", "en"): [[1, 2, 3], [9, 2, 1]],
        ("code", None): [[4, 5, 6, 7, 8]],
    }
    assert told["totals"] == {"documents": 3, "tokens": 11, "cut_short": 0, "lost": 0}
    assert told["blend"] == [[5, "code_text_document"], [6, "web_en_text_document"]]
    assert blend_line(told, "/a b") == "--data-path 5 '/a b/code_text_document' 6 '/a b/web_en_text_document'"
    line = "--data-path 5 THIS_FOLDER/code_text_document 6 THIS_FOLDER/web_en_text_document"
    assert line in (tmp_path / "out/README.md").read_text("utf-8")
    assert told == json.loads((tmp_path / "out/convert.json").read_bytes())


def test_a_document_whose_end_was_dropped_ends_where_it_ends_and_is_counted(tmp_path):
    documents = DOCUMENTS | {2: (0, [9, 2, 1, 4, 4])}
    told = convert(store(tmp_path / "in", documents=documents), "megatron", tmp_path / "out")
    assert megatron_documents(tmp_path / "out")["web", "en"] == [[1, 2, 3], [9, 2, 1]]
    assert (told["totals"]["cut_short"], told["totals"]["lost"]) == (1, 2)
    assert "1 documents end before their end, 2 tokens less" in (tmp_path / "out/README.md").read_text("utf-8")


def test_pointers_of_an_index_pass_every_32_bit_limit():
    """NVIDIA/Megatron-LM#1672 overflowed above 2**32 bytes; facebookresearch/fairseq#3765 kept lengths in 16 bits."""
    lengths = np.array([2**31 - 1, 70_000, 2**31 - 1, 1], np.int64)
    raw = index_bytes(lengths, "int32")
    assert np.frombuffer(raw, "<i4", 4, 34).tolist() == lengths.tolist()
    pointers = np.frombuffer(raw, "<i8", 4, 34 + 16).tolist()
    assert pointers == [0, 4 * (2**31 - 1), 4 * (2**31 - 1 + 70_000), 4 * (2**32 - 2 + 70_000)]
    with pytest.raises(BadInput, match=r"a document of 2,147,483,648 tokens"):
        index_bytes(np.array([2**31]), "int32")


@pytest.mark.parametrize(
    ("largest", "dtype", "stored"),
    [
        (65_499, "uint16", "uint16"),
        (65_535, "uint16", "uint16"),
        (65_536, "uint32", "int32"),
        (2**31 - 1, "uint32", "int32"),
    ],
)
def test_the_type_follows_from_the_largest_id(tmp_path, largest, dtype, stored):
    """Abel2076/json2binidx_tool#6: a limit of 65,500; huggingface/transformers#2825: ids that wrapped."""
    documents = {0: (0, [largest, 0])}
    store(tmp_path / "in", [[(0, 0, 2)]], documents, dtype=dtype, tokenizer={"name": "t", "max_id": largest})
    told = convert(tmp_path / "in", "megatron", tmp_path / "out")
    assert told["files"][0]["dtype"] == stored
    assert megatron_documents(tmp_path / "out")["web", "en"] == [[largest, 0]]


@given(st.lists(st.tuples(st.text(max_size=12), st.none() | st.sampled_from(["en", "zh"])), unique=True, max_size=12))
def test_names_of_files_are_safe_and_differ_on_every_system(groups):
    names = file_names(groups)
    assert len({name.lower() for name in names}) == len(groups)
    for name in names:
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
        assert name[0] not in ".-"


def changed(name, value):
    return lambda ids, columns: (ids, columns | {name: np.array(value)})


@pytest.mark.parametrize(
    ("told", "error", "said"),
    [
        ({"tokens": 12}, BadShard, "6 tokens, the manifest says 12; see prep verify"),
        ({"tokenizer": {"name": "t", "max_id": 8}}, BadShard, "holds id 9, allowed are 0 to 8; see prep verify"),
        (
            {"tokenizer": {"name": "t", "max_id": 2**31}, "dtype": "uint32"},
            BadInput,
            "ids go up to 2147483648; megatron files hold at most 2147483647",
        ),
        ({"packs": [*PACKS, [(0, 0, 3)]]}, BadShard, "6 tokens are stored of a document that has 3"),
        ({"packs": [PACKS[0], [(1, 4, 1), (2, 0, 3)]]}, BadShard, "a document lacks tokens before a piece"),
        ({"packs": [[(0, 0, 3), (1, 0, 2)], [(1, 1, 2), (2, 0, 3)]]}, BadShard, "stored twice, or missing in it"),
        ({"change": changed("segments/row", [0, 7])}, BadShard, "its segments do not fit its rows and documents"),
        ({"change": changed("segments/document", [0, 2])}, BadShard, "its segments do not fit its rows and documents"),
        ({"change": changed("segments/length", [3, 4])}, BadShard, "its segments do not fit its rows and documents"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, told, error, said):
    store(tmp_path / "in", **told)
    with pytest.raises(error, match=said) as caught:
        convert(tmp_path / "in", "megatron", tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out/convert.json").exists()


def test_more_sources_than_megatron_blends_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(megatron, "BLENDED", 1)
    with pytest.raises(
        BadInput, match="2 sources and languages; Megatron blends at most 1: give the records a coarser"
    ):
        convert(store(tmp_path / "in"), "megatron", tmp_path / "out")


def test_indexes_that_megatron_left_in_the_output_are_not_taken_for_new(tmp_path):
    """Megatron knows its cache by the name of a file, so a new conversion would be read by the old index."""
    convert(store(tmp_path / "in"), "megatron", tmp_path / "out")
    (tmp_path / "out/web_en_text_document/cache").mkdir(parents=True)
    with pytest.raises(BadParameter, match="holds web_en_text_document, which no conversion left there"):
        convert(tmp_path / "in", "megatron", tmp_path / "out")


def test_a_source_named_by_the_data_is_no_markup(tmp_path):
    name = "</td><script>alert(1)</script> | [x](y) \u202e\n"
    told = convert(store(tmp_path / "in", groups=[(name, "en"), ("code", None)]), "megatron", tmp_path / "out")
    text = (tmp_path / "out/README.md").read_text("utf-8")
    assert "<script>" not in text
    assert "\u202e" not in text
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [line.count("|") for line in rows] == [6, 6]
    assert {file["source"] for file in told["files"][::2]} == {name, "code"}
    assert all(set(file["file"]) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-") for file in told["files"])
