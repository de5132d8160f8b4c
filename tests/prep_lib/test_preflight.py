"""What would stop a run later is said before anything starts, all of it at once."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toy_runs import write_cell

from prep_lib import preflight as checks
from prep_lib.preflight import preflight
from prep_lib.recipes import parameters, read
from prep_lib.workspace import CHECKOUT, MARKER, Run, append_event


@pytest.fixture(name="ws")
def _ws(tmp_path):
    (tmp_path / MARKER).write_text("{}")
    return tmp_path


INPUTS = """files = ""            # JSONL or Parquet
tokenizer = ""        # "" = the built-in one
processor = "sft"
strategy = "chatml"
strategy_params = ""
template = ""         # a chat template
answers = "all"
columns = ""          # old->new
process_func = ""
memory_budget = "1GiB"
dataset = ""
"""


def problems(ws, **given):
    write_cell(ws, "20_b", INPUTS)
    (ws / "r.yaml").write_text(json.dumps({"notebooks": [{"20_b": given}]}))
    return preflight(read(ws / "r.yaml", ws), Run(ws, "r"))


ROW = '{"query": "a", "response": "b"}\n'


def test_good_input_has_no_problem_and_leaves_nothing_behind(ws):
    (ws / "a.jsonl").write_text(ROW * 3)
    (ws / "a.jsonl.gz").write_bytes(gzip.compress((ROW * 3).encode()))
    pq.write_table(pa.table({"query": ["a", "b"], "response": ["c", "d"]}), ws / "a.parquet", row_group_size=1)
    assert problems(ws, files="a.jsonl a.jsonl.gz a.parquet") == []
    assert not (ws / "runs/r").exists()


def test_all_problems_come_in_one_list(ws):
    (ws / "other.jsonl").write_text('{"prompt": "a"}\n' * 2)
    (ws / "last.jsonl").write_text(ROW + '{"query": \n\n')
    (ws / "empty.jsonl").touch()
    (ws / "cut.jsonl.gz").write_bytes(gzip.compress((ROW * 999).encode())[:-20])
    (ws / "not.parquet").write_text("x")
    found = problems(
        ws, files="other.jsonl last.jsonl empty.jsonl cut.jsonl.gz not.parquet none*.jsonl",
        process_func="nothing.py:f", memory_budget="999TiB", tokenizer="",
    )  # fmt: skip
    whole = "\n".join(found)
    for part in (
        "20_b: other.jsonl, line 1: ",
        "20_b: other.jsonl, last line: ",
        "20_b: cut.jsonl.gz, last line: cut_stream",
        "not.parquet",
        "no file matches 'none*.jsonl'",
        "no file",
        "memory_budget 999TiB is more than this machine gives",
    ):
        assert part in whole
    assert all("\n" not in line for line in found)
    assert "last.jsonl: " not in whole
    assert "empty.jsonl" not in whole


def test_a_renamed_column_and_a_marker_of_several_ids_are_seen(ws):
    (ws / "a.jsonl").write_text('{"prompt": "a", "answer": "b"}\n')
    assert problems(ws, files="a.jsonl", columns="prompt->query answer->response") == []
    found = problems(ws, files="a.jsonl", strategy_params="user_start='<｜im_start｜>user\\n'")
    assert "marker '<｜im_start｜>'" in found[0]
    assert "did you mean '<｜im▁start｜>'" in found[0]
    assert "did you mean 'chatml'" in problems(ws, files="a.jsonl", strategy="chatlm")[0]


def test_a_place_must_exist_but_a_hub_name_may_be_anywhere(ws):
    assert problems(ws, dataset="squad") == []
    assert problems(ws, dataset="org/name") == []
    assert "nothing at './data'" in problems(ws, dataset="./data")[0]
    assert "nothing at 'data.parquet'" in problems(ws, dataset="data.parquet")[0]


def test_a_chat_template_is_tried_before_anything_starts(ws):
    (ws / "a.jsonl").write_text(ROW)
    assert problems(ws, files="a.jsonl", template="chatml", tokenizer="") == []
    (ws / "broken.jinja").write_text("{% for %}")
    assert "jinja: broken, line 1" in problems(ws, files="a.jsonl", template="broken.jinja", tokenizer="")[0]
    assert "answers must be one of all, last" in problems(ws, files="a.jsonl", template="chatml", answers="some")[0]


def test_a_notebook_depends_on_what_is_read_of_a_model_and_on_other_runs(ws):
    (ws / "model").mkdir()
    for name in ("tokenizer.json", "chat_template.jinja", "model.safetensors"):
        (ws / "model" / name).touch()
    shards = Run(ws, "before", "22_tensorize").data
    shards.mkdir(parents=True)
    (shards / "manifest.json").touch()
    write_cell(ws, "20_b", 'tokenizer = ""  # a\ntemplate = ""  # b\nother = ""  # c\nrun = ""  # d\n')
    (ws / "r.yaml").write_text(json.dumps({"notebooks": [{"20_b": {"template": "model", "other": "before"}}]}))
    (step,) = read(ws / "r.yaml", ws).steps
    assert [path.name for path in checks.inputs(step, Run(ws, "r"))] == [
        "chat_template.jinja", "tokenizer.json", "manifest.json",
    ]  # fmt: skip


#: Texts that name nothing to read. Whoever gives a notebook a new parameter says here, or in `preflight.READS`, which.
NAMES_NOTHING = {
    "answers", "binary", "benchmark_fields", "budget", "columns", "country", "document", "engine", "extractor",
    "format", "hash_text", "keep", "keep_languages", "keep_rejected", "key", "labels", "lang", "language_fields",
    "like", "limits", "memory_budget", "mix_unit", "nan", "output_dir", "packing", "pii_action", "pii_kinds", "prefix",
    "processor", "renumbered", "run", "shingle", "source_field", "special_tokens", "strategy", "strategy_params",
    "tail", "temp_dir", "text_field", "too_long", "unit", "unlike", "weights",
}  # fmt: skip


def test_of_every_text_a_notebook_asks_for_it_is_known_whether_it_names_something_to_read():
    found = [parameters(path) for path in sorted((CHECKOUT / "notebooks").glob("*.ipynb"))]
    texts = {name for asked in found for name, one in asked.items() if isinstance(one.default, str)}
    assert texts == NAMES_NOTHING | set(checks.READS)
    assert not NAMES_NOTHING & set(checks.READS)


def asked(ws, **given):
    """Return the files, by name, that a notebook with these parameters depends on."""
    write_cell(ws, "20_b", "".join(f'{name} = ""  # what\n' for name in (*given, "run")))
    (ws / "r.yaml").write_text(json.dumps({"notebooks": [{"20_b": given}]}))
    (step,) = read(ws / "r.yaml", ws).steps
    return [path.name for path in checks.inputs(step, Run(ws, "r"))]


def test_everything_that_names_something_to_read_is_looked_for(ws):
    """Whatever kind it is of: a file, a folder, a folder of shards, a run, code."""
    folder = Run(ws, "one").folder
    for name in ("executed/15_pack.json", "data/15_pack/manifest.json", "data/15_pack/.prep/owner.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (ws / "mine.yaml").touch()
    told = {"rules": "en=mine.yaml", "plugins": "mine.yaml", "process_func": "mine.yaml:make"}
    for name in checks.READS:
        meant = "one" if name in ("shards", "other") else told.get(name, "mine.yaml")
        wanted = ["manifest.json", "15_pack.json"] if name in ("shards", "other") else ["mine.yaml"]
        assert asked(ws, **{name: meant}) == wanted, name


def test_of_a_folder_everything_counts_and_nothing_hidden(ws):
    for name in ("web/a.html", "web/deep/b.warc", "web/.prep/owner.json", "c.html"):
        (ws / name).parent.mkdir(parents=True, exist_ok=True)
        (ws / name).touch()
    assert asked(ws, inputs="web") == ["a.html", "b.warc"]
    assert asked(ws, inputs="c.html web") == ["c.html", "a.html", "b.warc"]
    assert asked(ws, inputs=f"file://{ws}/web file://{ws}/*.html") == ["c.html", "a.html", "b.warc"]
    # What nobody can look at stands for itself, and so does a run that is yet to be found.
    assert asked(ws, inputs="nowhere://a/b.jsonl") == ["b.jsonl"]
    assert asked(ws, other="before") == ["before"]


def test_a_file_name_with_a_blank_is_one_name(ws):
    (ws / "two words.jsonl").write_text(ROW)
    assert problems(ws, files="'two words.jsonl'") == []
    write_cell(ws, "20_b", INPUTS)
    (ws / "r.yaml").write_text(json.dumps({"notebooks": [{"20_b": {"files": "'two words.jsonl'"}}]}))
    (step,) = read(ws / "r.yaml", ws).steps
    assert [path.name for path in checks.inputs(step, Run(ws, "r"))] == ["two words.jsonl"]


def test_a_full_disk_is_said_before(ws, monkeypatch):
    (ws / "a.jsonl").write_text(ROW)
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    assert problems(ws, files="a.jsonl")[-1].startswith("disk: about 0 MiB will be written, 0 MiB are free")


def test_rows_are_counted_where_that_is_cheap(ws):
    (ws / "a.jsonl.gz").write_bytes(gzip.compress((ROW * 5).encode()))
    pq.write_table(pa.table({"a": [1, 2]}), ws / "a.parquet")
    (ws / "a.json").write_text("[]")
    assert [checks.count_rows(ws / name) for name in ("a.jsonl.gz", "a.parquet", "a.json")] == [5, 2, None]


def test_a_rule_file_is_an_input_of_the_notebook_that_names_it(ws):
    (ws / "mine.yaml").write_text("name: mine\n")
    write_cell(ws, "20_b", 'rules = ""  # a\nrun = ""  # b\nlang = "en"  # c\n')
    given = {"rules": "en=mine.yaml zh=fineweb2/cmn other=pass"}
    (ws / "r.yaml").write_text(json.dumps({"notebooks": [{"20_b": given}]}))
    (step,) = read(ws / "r.yaml", ws).steps
    assert [path.name for path in checks.inputs(step, Run(ws, "r"))] == ["mine.yaml"]


def test_a_notebook_left_out_must_have_come_to_its_end(ws):
    for name, before in (("11_clean", "10_read"), ("13_mix", "12_dedup"), ("15_pack", "13_mix")):
        write_cell(ws, name, f'files = ""  # rows; empty: what {before} left\n')
    (ws / "r.yaml").write_text("notebooks: [11_clean, 13_mix, 15_pack]")
    part, run = read("r.yaml", ws).part(first="13"), Run(ws, "r")
    # 12_dedup is not in this recipe: what stands before it is read.
    (found,) = preflight(part, run)
    assert found.startswith(
        "13_mix reads what 11_clean writes, which is left out and never came to its end in run 'r'; "
    )
    assert found.endswith("prep run r.yaml --from 11_clean")
    (run.folder / "data/11_clean").mkdir(parents=True)
    (run.folder / "data/11_clean/a").touch()
    assert preflight(part, run) == []
    append_event(run.folder, {"event": "notebook", "notebook": "11_clean", "state": "interrupted"})
    assert len(preflight(part, run)) == 1
    named = read("r.yaml", ws, ["13.files=a.jsonl"]).part(first="13")
    assert preflight(named, run) == ["13_mix: workspace: no file matches 'a.jsonl' in " + str(ws)]
    assert preflight(read("r.yaml", ws).part(last="11"), run) == []
