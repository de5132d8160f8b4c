"""Benchmarks: each known form is read by its own fields and says which; what cannot be read is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import shared

from prep_lib.errors import BadInput, BadParameter
from prep_lib.text.benchmarks import Benchmarks, Declared, FieldMap, Item, load_benchmarks, parse_fields

ASK = "How many legs have three spiders and one duck?"


def write(path: Path, *records: Any) -> Path:
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


#: (name, record, the query, the support): the shapes these benchmarks have on the hub and in their repositories.
SHAPES: list[tuple[str, str, dict[str, Any], tuple[str, ...]]] = [
    ("mmlu_test", "mmlu", {"question": ASK, "subject": "zoology", "choices": ["24", "26"], "answer": 1}, ("24", "26")),
    ("gsm8k-main", "gsm8k", {"question": ASK, "answer": "26 legs"}, ("26 legs",)),
    ("HumanEval_js", "humaneval", {"task_id": "a", "prompt": ASK, "canonical_solution": "x"}, ("x",)),
    ("mbpp", "mbpp", {"task_id": 11, "text": ASK, "code": "def f(): pass", "test_list": []}, ("def f(): pass",)),
    ("mbpp_clean", "mbpp", {"task_id": 2, "prompt": ASK, "code": "def f(): pass"}, ("def f(): pass",)),
    ("ARC-Easy", "arc", {"id": "M1", "question": ASK, "choices": {"text": ["a"], "label": ["A"]}}, ("a",)),
    ("ARC-Challenge-Test", "arc", {"id": "M2", "question": {"stem": ASK, "choices": [{"text": "a", "label": "A"}]}},
     ("a",)),
    ("agieval_sat", "agieval", {"passage": "P", "question": ASK, "options": ["(A)1"], "label": "A"}, ("P", "(A)1")),
    ("agieval_hub", "agieval", {"query": ASK, "choices": ["(A)1"], "gold": [0]}, ("(A)1",)),
    ("ceval_val", "ceval", {"id": 0, "question": ASK, "A": "1", "B": "2", "C": "3", "D": "4"}, ("1", "2", "3", "4")),
    ("cmmlu_dev", "cmmlu", {"Question": ASK, "A": "1", "B": "2", "C": "3", "D": "4"}, ("1", "2", "3", "4")),
    ("truthful_qa", "truthfulqa", {"question": ASK, "best_answer": "26", "correct_answers": ["26", "26 legs"]},
     ("26", "26", "26 legs")),
    ("truthfulqa_mc", "truthfulqa", {"question": ASK, "mc1_targets": {"choices": ["26"], "labels": [1]}}, ("26",)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "known", "record", "support"), SHAPES, ids=[shape[0] for shape in SHAPES])
def test_known_forms_are_read_by_their_own_fields(
    tmp_path: Path, name: str, known: str, record: dict[str, Any], support: tuple[str, ...]
) -> None:
    read = load_benchmarks(write(tmp_path / f"{name}.jsonl", record))
    named = str(record.get("task_id", record.get("id", 0)))
    assert read.items == (Item(name, named, ASK, support, about_passage="passage" in record),)
    assert read.declared[0].known_as == known


def test_a_form_is_known_by_its_fields_where_its_name_says_nothing(tmp_path: Path) -> None:
    read = load_benchmarks(write(tmp_path / "exam.jsonl", {"question": ASK, "choices": ["a"], "answer": 0}))
    assert read.declared == (Declared("exam", "mmlu", ("question",), ("choices",), 1),)


def test_which_fields_were_used_is_told(tmp_path: Path) -> None:
    """BUG-036: nobody should have to guess what the query of an item was."""
    path = write(tmp_path / "agieval_x.jsonl", {"question": ASK, "passage": None, "options": ["(A)1"]})
    assert load_benchmarks(path).declared == (Declared("agieval_x", "agieval", ("question",), ("options",), 1),)


def test_folders_patterns_lists_and_names(tmp_path: Path) -> None:
    write(tmp_path / "gsm8k_a.jsonl", {"question": ASK, "answer": "26"})
    write(tmp_path / "gsm8k_b.jsonl.gz", {"question": ASK, "answer": "26"}, {"question": "And two?", "answer": "2"})
    (tmp_path / "README.md").write_text("not a benchmark")
    whole = load_benchmarks(tmp_path)
    assert [(one.name, one.items) for one in whole.declared] == [("gsm8k_a", 1), ("gsm8k_b", 2)]
    assert load_benchmarks(str(tmp_path / "*_b*")).names == ("gsm8k_b",)
    assert load_benchmarks([tmp_path / "gsm8k_b.jsonl.gz", tmp_path / "gsm8k_a.jsonl"]).names == ("gsm8k_b", "gsm8k_a")
    assert load_benchmarks(tmp_path, skip="*_a* x").names == ("gsm8k_b",)
    assert load_benchmarks({"gsm": tmp_path / "gsm8k_a.jsonl"}).items[0].name == "gsm/0"
    assert repr(whole) == "<3 items of gsm8k_a, gsm8k_b>"
    assert len(whole) == 3


def test_a_data_set_is_read_as_a_file_is() -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_list([{"question": ASK, "choices": {"text": ["a"], "label": ["A"]}}])
    assert load_benchmarks({"arc": rows}).items == (Item("arc", "0", ASK, ("a",)),)


def test_own_fields(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", {"ask": ASK, "more": {"text": "a"}, "n": 7})
    read = load_benchmarks(path, fields="ask->query more.text->support n->id")
    assert read.items == (Item("mine", "7", ASK, ("a",)),)
    assert read.declared[0].known_as == "own"
    assert parse_fields("a->query b->query") == (FieldMap(("a", "b")), "")


@pytest.mark.parametrize("fields", ["ask", "->query", "ask->answer", "a->support", "a->query b->id c->id"])
def test_fields_that_say_nothing_are_refused(fields: str) -> None:
    with pytest.raises(BadParameter, match=r"text/benchmarks: .*fields"):
        parse_fields(fields)


def test_an_item_without_an_id_is_named_by_its_row(tmp_path: Path) -> None:
    path = write(
        tmp_path / "gsm8k.jsonl", {"question": ASK, "id": None, "answer": "1"}, {"question": ASK, "answer": "1"}
    )
    assert [item.id for item in load_benchmarks(path).items] == ["0", "1"]


def test_an_id_that_names_its_benchmark_is_not_named_twice() -> None:
    assert Item("HumanEval", "HumanEval/3", ASK).name == "HumanEval/3"


def test_no_benchmark_is_an_error_and_no_clean_result(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="no benchmark given"):
        Benchmarks(())
    for nothing in ([], "", {}):
        with pytest.raises(BadParameter, match="no benchmark given"):
            load_benchmarks(nothing)
    with pytest.raises(BadParameter, match="no benchmark given"):
        load_benchmarks(tmp_path)
    with pytest.raises(BadParameter, match="gsm8k_empty has no item with a query"):
        load_benchmarks(write(tmp_path / "gsm8k_empty.jsonl"))


def test_unknown_fields_are_named_with_the_way_out(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", {"ask": ASK, "reply": "26"})
    with pytest.raises(BadParameter, match=r"no ready map fits mine, whose fields are ask, reply; give fields="):
        load_benchmarks(path)


def test_an_item_that_cannot_be_read_stops_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "gsm8k.jsonl"
    path.write_text('{"question": "a", "answer": "b"}\n{"question": \n')
    with pytest.raises(BadInput, match=r"gsm8k.jsonl#L2 cannot be read .* passes for clean"):
        load_benchmarks(path)


def test_records_without_a_query_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "gsm8k.jsonl", {"question": ASK, "answer": "1"}, {"question": " ", "answer": "2"})
    assert load_benchmarks(path).declared == (Declared("gsm8k", "gsm8k", ("question",), ("answer",), 1, 1),)


def test_two_benchmarks_of_one_name_are_told_apart_by_the_way_to_them(tmp_path: Path) -> None:
    record = {"question": ASK, "answer": "1"}
    for folder in ("a", "b", "c/b"):
        (tmp_path / folder).mkdir(parents=True)
    paths = [write(tmp_path / folder / "gsm8k.jsonl", record) for folder in ("a", "b", "c/b")]
    paths += [write(tmp_path / "a" / "gsm8k.json", [record]), write(tmp_path / "a" / "mine_gsm8k.jsonl", record)]
    names = load_benchmarks([*map(str, paths)]).names
    assert names == ("a/gsm8k.jsonl", f"{tmp_path.name}/b/gsm8k.jsonl", "c/b/gsm8k.jsonl", "gsm8k.json", "mine_gsm8k")
    with pytest.raises(BadParameter, match=r"two benchmarks are named '.*gsm8k.jsonl'; leave one out, or name them"):
        load_benchmarks([paths[0], paths[0]])


def test_a_folder_is_read_to_its_ground_and_what_is_not_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "arc" / ".cache").mkdir(parents=True)
    record = {"question": ASK, "choices": ["a"]}
    for name in ("DATA.JSONL", "x.parq", "arc/test.JSONL.gz", "arc/.cache/old.jsonl", "arc/LICENSE", ".hidden.jsonl"):
        write(tmp_path / name, record)
    read = load_benchmarks(tmp_path)
    assert [(one.name, one.known_as) for one in read.declared] == [("DATA", "mmlu"), ("arc/test", "arc")]
    assert read.unread == ("arc/LICENSE", "x.parq")
    assert load_benchmarks(tmp_path, skip="x.* arc").unread == ()
    assert {*load_benchmarks(f"{tmp_path}/*").names} == {"DATA", "arc/test"}


def test_a_folder_that_datasets_saved_is_one_benchmark_wherever_it_lies(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    (tmp_path / "more").mkdir()
    datasets.Dataset.from_list([{"question": ASK, "answer": "1"}]).save_to_disk(tmp_path / "more" / "gsm8k")
    assert load_benchmarks(tmp_path).names == ("more/gsm8k",)
    assert load_benchmarks(tmp_path / "more" / "gsm8k").names == ("gsm8k",)


@pytest.mark.parametrize("pattern", ["nodir/*.jsonl", "*/x.jsonl", "sub/*", "**/*.parq"])
def test_a_pattern_that_fits_nothing_is_no_benchmark(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "sub").mkdir()
    with pytest.raises(BadParameter, match=r"no benchmark given: .* holds no file of items"):
        load_benchmarks(f"{tmp_path}/{pattern}")


def test_a_record_whose_fields_are_named_otherwise_is_no_empty_item(tmp_path: Path) -> None:
    path = write(tmp_path / "gsm8k.jsonl", {"question": ASK, "answer": "1"}, {"Question": ASK, "answer": "2"})
    with pytest.raises(
        BadInput, match=r"gsm8k.jsonl#L2 has no field question, but Question, answer; .* passes for clean"
    ):
        load_benchmarks(path)
    sparse = write(tmp_path / "own.jsonl", {"ask": ASK}, {"more": ASK}, {"ask": None})
    with pytest.raises(BadInput, match=r"own.jsonl#L2 has no field ask"):
        load_benchmarks(sparse, fields="ask->query")
    assert load_benchmarks(sparse, fields="ask->query more->query").declared[0].empty == 1


@pytest.mark.parametrize("field", ["answr->support", "story->passage", "number->id", "ask2->query"])
def test_a_field_that_no_record_has_is_a_slip(tmp_path: Path, field: str) -> None:
    path = write(tmp_path / "own.jsonl", {"ask": ASK, "answer": "1"})
    with pytest.raises(
        BadParameter, match=f"no record of own has the field {field.split('-')[0]}, which fields= names"
    ):
        load_benchmarks(path, fields=f"ask->query {field}")


def test_a_query_is_a_text_and_no_record(tmp_path: Path) -> None:
    """Options in the query: hardly any document would hold all of it."""
    path = write(tmp_path / "mine.jsonl", {"question": {"stem": ASK, "options": ["a"]}, "answer": "a"})
    with pytest.raises(
        BadInput, match=r"question of mine.jsonl#L1 holds the fields stem, options; give fields='questi"
    ):
        load_benchmarks(path)
    read = load_benchmarks(path, fields="question.stem->query question.options->support")
    assert read.items == (Item("mine", "0", ASK, ("a",)),)


def test_a_passage_is_support_that_is_asked_about(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", {"ask": ASK, "story": "S", "o": "a"}, {"ask": ASK, "story": None, "o": "a"})
    first, second = load_benchmarks(path, fields="ask->query story->passage o->support").items
    assert (first.support, first.about_passage) == (("S", "a"), True)
    assert (second.support, second.about_passage) == (("a",), False)


def test_the_real_files_are_known_by_name() -> None:
    read = load_benchmarks(shared("bench"), skip="planted*")
    known = {one.name: one.known_as for one in read.declared}
    assert known["HumanEval_java_v1.1_prompts"] == "humaneval"
    assert {"agieval", "arc", "gsm8k", "humaneval", "mbpp", "mmlu", "truthfulqa"} == {*known.values()}
    assert {one.name: one.items for one in read.declared}["gsm8k_test_600"] == 600
    assert not any(one.empty for one in read.declared)
