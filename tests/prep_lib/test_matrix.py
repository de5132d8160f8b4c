"""All combinations, each whole by itself, and what does not differ done once."""

from __future__ import annotations

import os

import pytest
from toy_runs import instantly, workspace, write_cell

from prep_lib import matrix
from prep_lib.errors import BadParameter, NotebookFailed
from prep_lib.ledger import Ledger
from prep_lib.matrix import Cell, combinations, compared, lines, names, page, run_matrix, values
from prep_lib.recipes import read
from prep_lib.results import ledgers, record
from prep_lib.workspace import RUN_NAME, Run, read_events

NOTEBOOKS = ["10_a", "11_b", "12_c"]


@pytest.fixture(name="ws")
def _ws(tmp_path):
    ws = workspace(tmp_path)
    for name in NOTEBOOKS:
        write_cell(ws, name, 'run = ""  # which\nlang = "en"  # of the page\nn = 4  # rows\n')
    (ws / "r.yaml").write_text("notebooks: [10_a, 11_b, 12_c]")
    return ws


@pytest.fixture(name="done")
def _done(monkeypatch):
    """Which notebooks were executed: each drops one of its rows, 12_c with n=9 fails."""
    done = list[tuple[str, str]]()

    def work(values, run):
        done.append((run.name, run.notebook))
        if run.notebook == "12_c" and values["n"] == 9:
            raise NotebookFailed("12_c: cell 3: nine is too many")
        (run.data / "rows").write_bytes(bytes(1000 * values["n"]))
        ledger = Ledger(stages=["read"])
        ledger.add("read", "in", documents=values["n"])
        ledger.add("read", "dropped", reason="short", documents=1)
        ledger.add("read", "kept", documents=values["n"] - 1)
        (run.data / "ledger.json").write_text(ledger.to_json())

    instantly(monkeypatch, dict.fromkeys(NOTEBOOKS, work))
    return done


def cells(ws, *given):
    found = combinations(given, NOTEBOOKS)
    called = names("r", [varied for varied, _ in found])
    pairs = zip(found, called, strict=True)
    return [Cell(varied, read("r.yaml", ws, over), Run(ws, name)) for (varied, over), name in pairs]


# ── which ──


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0.8,0.85", ["0.8", "0.85"]), ("'en=a,b',c", ["en=a,b", "c"]), ('"a,b"', ["a,b"]), ("a b,c d", ["a b", "c d"]),
        (r"x\\n,y", [r"x\\n", "y"]), ("'',a", ["", "a"]), ("'',',,'", ["", ",,"]), ("say 'a' twice", ["say 'a' twice"]),
        ("", [""]),
    ],
)  # fmt: skip
def test_values_stand_apart_by_commas_outside_of_quotes(text, found):
    assert values(text) == found


def test_every_combination_comes_once_and_the_rest_stays():
    found = combinations(["11.n=1,2", "10_a.lang=zh", "12_c.n=3,4"], NOTEBOOKS)
    assert [dict(varied) for varied, _ in found] == [
        {"11_b.n": first, "12_c.n": last} for first in ("1", "2") for last in ("3", "4")
    ]
    assert found[0][1] == ["11_b.n=1", "10_a.lang=zh", "12_c.n=3"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["11.n=1"], "no -p has several values"),
        ([], "no -p has several values"),
        (["11.n=1,1"], "a value stands there twice"),
        (["11.n=,", "12_c.n=1,2"], "nothing stands between two commas"),
        (["11.n=1,,'a,,b'"], "nothing stands between two commas"),
        (["11.n=1, "], "nothing stands between two commas"),
        (["11.n='1,2"], "quote a value that holds a comma"),
        (["n=1,2"], "write notebook.name=value"),
        (["99.n=1,2"], "unknown notebook"),
    ],
)
def test_what_is_no_matrix_is_refused(given, message):
    with pytest.raises(BadParameter, match=message):
        combinations(given, NOTEBOOKS)


def test_runs_have_names_that_tell_them_apart_and_are_allowed():
    every = [{"11_b.n": one, "12_c.n": other} for one in ("a b", "a/b") for other in ("x" * 200, "1")]
    found = names("r", every)
    assert len({*found}) == 4
    assert all(RUN_NAME.fullmatch(name) for name in found)
    assert names("r", [{"11_b.n": "1", "12_c.n": "2"}]) == ["r-11.n-1-12.n-2"]


# ── run ──


def test_what_does_not_differ_is_done_once_and_every_run_is_whole(ws, done):
    every = cells(ws, "11.n=5,6", "12.n=7,8")
    assert run_matrix(every, tell=lambda _: None) == {}
    assert [notebook for _, notebook in done].count("10_a") == 1
    assert [notebook for _, notebook in done].count("11_b") == 2
    assert [notebook for _, notebook in done].count("12_c") == 4
    first, second = every[0].run, every[1].run
    assert os.path.samefile(first.folder / "data/11_b/rows", second.folder / "data/11_b/rows")
    assert record(Run(ws, second.name, "11_b"))["shared"] == first.name
    said = f"Made in run {first.name} and shared with this one"
    pages = [(run.folder / "reports/11_b.html").read_text("utf-8") for run in (first, second)]
    assert [said in page for page in pages] == [False, True]
    for cell in every:
        assert sorted(path.name for path in (cell.run.folder / "reports").glob("1*.html")) == [
            "10_a.html", "11_b.html", "12_c.html",
        ]  # fmt: skip
        for ledger in ledgers(cell.run).values():
            ledger.check()
    done.clear()
    assert run_matrix(every, tell=lambda _: None) == {}
    assert done == []


def test_a_run_that_is_changed_later_leaves_what_it_shared_alone(ws, done):
    one, other = cells(ws, "12.n=7,8")
    run_matrix([one, other], tell=lambda _: None)
    before = (one.run.folder / "data/10_a/rows").read_bytes()
    executed = (one.run.folder / "executed/10_a.ipynb").read_bytes()
    changed = Cell(other.varied, read("r.yaml", ws, ["10.n=2", "12.n=8"]), other.run)
    run_matrix([changed], tell=lambda _: None)
    assert (one.run.folder / "data/10_a/rows").read_bytes() == before
    assert (one.run.folder / "executed/10_a.ipynb").read_bytes() == executed
    assert len((other.run.folder / "data/10_a/rows").read_bytes()) == 2000


def test_one_that_fails_does_not_stop_the_others_and_is_made_good_later(ws, done):
    every, told = cells(ws, "12.n=9,8"), list[str]()
    failed = run_matrix(every, tell=told.append)
    assert failed == {every[0].run.name: "12_c: cell 3: nine is too many"}
    assert "failed: 12_c: cell 3: nine is too many" in told
    assert done.count((every[1].run.name, "12_c")) == 1
    done.clear()
    run_matrix(every, tell=lambda _: None)
    assert done == [(every[0].run.name, "12_c")]


def test_a_kill_between_two_combinations_costs_nothing_that_was_done(ws, done, monkeypatch):
    every = cells(ws, "11.n=5,6")
    whole = matrix.run_recipe

    def cut(recipe, run, **options):
        if run == every[1].run:
            raise KeyboardInterrupt
        return whole(recipe, run, **options)

    monkeypatch.setattr(matrix, "run_recipe", cut)
    with pytest.raises(KeyboardInterrupt):
        run_matrix(every, tell=lambda _: None)
    monkeypatch.setattr(matrix, "run_recipe", whole)
    done.clear()
    run_matrix(every, tell=lambda _: None)
    assert done == [(every[1].run.name, "11_b"), (every[1].run.name, "12_c")]
    kept = [event["notebook"] for event in read_events(every[1].run.folder)[0] if event.get("state") == "kept"]
    assert kept == ["10_a"]


def test_runs_stand_beside_each_other_differences_first(ws, done):
    every = cells(ws, "12.n=9,8,7")
    failed = run_matrix(every, tell=lambda _: None)
    different, same, told = compared(every, failed)
    assert different[-1] == "time"
    assert "kept" in different
    assert "records" in same
    assert told[1]["kept"] == 7
    assert {*told[0].values()} == {"–"}  # what may stand there is from another time
    shown = list(lines(every, failed))
    assert shown[0].startswith("12_c.n  kept")
    assert "(failed)" in shown[1]
    assert shown[-1].startswith("the same in all: records 4")
    target = page(every, {every[0].run.name: f"{ws}/in.jsonl <b>"}, ws / "runs" / "r-matrix.html")
    html = target.read_text("utf-8")
    assert "<h1>3 combinations side by side</h1>" in html
    assert 'href="r-12.n-8/reports/index.html"' in html
    assert "in.jsonl &lt;b&gt;" in html
    assert str(ws) not in html
    assert "种组合对比" in page(cells(ws, "12.n=8,7", "10.lang=zh"), {}, target).read_text("utf-8")
