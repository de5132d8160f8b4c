"""Over files the same is decided as in memory, however they are cut and whoever works; and nothing is lost."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import killing
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prep_lib import engine
from prep_lib import files as fs
from prep_lib.decide import decide_files
from prep_lib.documents import Documents
from prep_lib.errors import BadInput, BadParameter, NoSpace, RunLocked, TooManyLost
from prep_lib.events import listen
from prep_lib.locks import lock
from prep_lib.pipeline import run_files
from prep_lib.record import Document
from prep_lib.stage import run
from prep_lib.text.exact_dedup import ExactDedup
from prep_lib.text.mixture import Mixture
from prep_lib.text.near_dedup import NearDedup
from prep_lib.text.normalize import Normalize

WORDS = ["tea", "leaf", "cup", "pot", "water", "steam", "morning", "kettle", "sugar", "milk", "window", "chair"]


def texts(seed: int, count: int = 40) -> list[str]:
    """Texts of which some are equal, some nearly so, and some have lines in common."""
    chance = random.Random(seed)
    out: list[str] = []
    for _ in range(count):
        kind = chance.choice(["new", "copy", "near", "line"]) if out else "new"
        words = [chance.choice(WORDS) for _ in range(chance.randint(3, 40))]
        if kind == "new":
            out.append(" ".join(words))
        elif kind == "line":
            out.append(f"{chance.choice(out)}\n{' '.join(words)}")
        else:
            old = chance.choice(out)
            out.append(old if kind == "copy" else f"{old} {chance.choice(WORDS)}")
    return out


def write(path: Path, rows: Sequence[tuple[str, str, str]]) -> Path:
    """Documents with ids of their own, so that they are called the same wherever they lie."""
    records = ({"id": name, "text": text, "source": source, "meta": {}} for name, text, source in rows)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def rows_of(seed: int, count: int = 40) -> list[tuple[str, str, str]]:
    return [(f"d{at}", text, ("web", "book")[at % 2]) for at, text in enumerate(texts(seed, count))]


STAGES = {
    "documents": [ExactDedup(), NearDedup(threshold=0.7)],
    "lines": [ExactDedup(level="line", min_chars=10)],
    "first": [ExactDedup(keep="first"), NearDedup(keep="first", threshold=0.7)],
    "mixture": [ExactDedup(), Mixture(weights="web=0.7 book=0.3")],
    "repeated": [Mixture(weights="web=0.5 book=0.5", budget=9000)],
}


def in_memory(stages: list, rows: Sequence[tuple[str, str, str]]) -> tuple[dict[str, tuple], list[tuple[str, str]]]:
    """What `run` decides: who goes, why and for whom; and what is left, copies under one name."""
    result = run(stages, [Document(*row) for row in rows])
    gone = {lost.document.id: (lost.stage, lost.drop.reason, lost.drop.twin) for lost in result.dropped}
    return gone, sorted((doc.id, doc.text) for doc in result.kept)


def on_files(folder: Path) -> tuple[dict[str, tuple], list[tuple[str, str]]]:
    found = Documents(folder)
    gone = {line["id"]: (line["stage"], line["reason"], line["twin"]) for line in found.rejected()}
    return gone, sorted((doc.id.split("~")[0], doc.text) for doc in found)


@pytest.mark.parametrize("name", STAGES)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), cut=st.integers(1, 39), small=st.booleans())
def test_files_decide_as_memory_does_however_they_are_cut(
    tmp_path_factory: pytest.TempPathFactory, name: str, seed: int, cut: int, small: bool
) -> None:
    folder, rows = tmp_path_factory.mktemp("decide"), rows_of(seed)
    write(folder / "a.jsonl", rows[:cut])
    write(folder / "b.jsonl", rows[cut:])
    ledger = decide_files(
        STAGES[name], folder, folder / "out", engine="inline", max_dropped=1.0,
        memory_budget=1 if small else "2GiB",
    )  # fmt: skip
    assert on_files(folder / "out") == in_memory(STAGES[name], rows)
    assert ledger == run(STAGES[name], [Document(*row) for row in rows]).ledger.__class__.from_json(ledger.to_json())
    memory = run(STAGES[name], [Document(*row) for row in rows]).ledger
    assert [row for row in ledger.rows() if row["stage"] != "read"] == list(memory.rows())


@pytest.mark.parametrize("name", ["documents", "lines", "mixture"])
def test_the_order_of_documents_and_files_does_not_matter(tmp_path: Path, name: str) -> None:
    rows = rows_of(7, 80)
    mixed = random.Random(1).sample(rows, len(rows))
    write(tmp_path / "a.jsonl", rows)
    (tmp_path / "two").mkdir()
    write(tmp_path / "two" / "x.jsonl", mixed[:30])
    write(tmp_path / "two" / "w.jsonl", mixed[30:])
    decide_files(STAGES[name], tmp_path / "a.jsonl", tmp_path / "one", engine="inline", max_dropped=1.0)
    decide_files(STAGES[name], tmp_path / "two", tmp_path / "other", engine="inline", max_dropped=1.0)
    assert on_files(tmp_path / "one") == on_files(tmp_path / "other")


def test_the_same_bytes_for_any_number_of_workers_and_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.jsonl", rows_of(3, 60))
    write(tmp_path / "b.jsonl", rows_of(4, 60)[::-1])
    bytes_of = []
    stages = [ExactDedup(), NearDedup(threshold=0.7), Mixture(weights="web=0.6 book=0.4", budget=20_000)]
    # Ids of two files must differ, and those above do not.
    write(tmp_path / "b.jsonl", [(f"b{name}", text, source) for name, text, source in rows_of(4, 60)[::-1]])
    for number, (how, memory) in enumerate([("inline", "2GiB"), ("processes", 1)]):
        out = tmp_path / f"out{number}"
        decide_files(
            stages, [tmp_path / "a.jsonl", tmp_path / "b.jsonl"], out, engine=how, workers=2,
            memory_budget=memory, max_dropped=1.0,
        )  # fmt: skip
        bytes_of.append({path.name: path.read_bytes() for path in sorted(out.iterdir()) if path.is_file()})
    assert bytes_of[0] == bytes_of[1]
    assert set(bytes_of[0]) >= {"part-00000.copies.npy", "documents.json", "ledger.json", "rejected.jsonl.zst"}


def test_parts_of_a_run_rows_of_parquet_and_spans_of_one_file_are_read_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(11, 60)
    write(tmp_path / "a.jsonl", rows)
    columns = {key: [row[at] for row in rows] for at, key in enumerate(("id", "text", "source"))}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=7)
    run_files([Normalize()], tmp_path / "a.jsonl", tmp_path / "parts", engine="inline")
    kept = []
    for at, name in enumerate(["a.jsonl", "a.parquet", "parts"]):
        decide_files(STAGES["documents"], tmp_path / name, tmp_path / f"out{at}", engine="inline", max_dropped=1.0)
        kept.append(sorted(doc.text for doc in Documents(tmp_path / f"out{at}")))
    monkeypatch.setattr(fs, "SPAN", 500)
    monkeypatch.setattr("prep_lib.inputs.BUNDLES", 1)
    decide_files(
        STAGES["documents"], tmp_path / "a.jsonl", tmp_path / "spans", engine="inline", max_dropped=1.0, rehash=True
    )
    kept.append(sorted(doc.text for doc in Documents(tmp_path / "spans")))
    assert len(list((tmp_path / "spans/.prep/sketch").glob("*.heads.npy"))) > 5
    assert kept[0] == kept[1] == kept[2] == kept[3]


def test_verdicts_about_verdicts_are_about_the_texts_below(tmp_path: Path) -> None:
    """Lines are cut, then documents go; the second decision reads what the first one left."""
    long = "a line that stands in two documents and is long"
    write(tmp_path / "a.jsonl", [
        ("1", f"{long}\nshort one\nand a tail that only this one has got", "web"), ("2", f"{long}\nother", "web"),
        ("3", "other", "web"), ("4", "alone", "web"),
    ])  # fmt: skip
    decide_files([ExactDedup(level="line", min_chars=20)], tmp_path / "a.jsonl", tmp_path / "one", engine="inline")
    assert [doc.text for doc in Documents(tmp_path / "one")][1:] == ["other", "other", "alone"]
    decide_files([ExactDedup()], tmp_path / "one", tmp_path / "two", engine="inline")
    assert sorted(doc.text for doc in Documents(tmp_path / "two"))[1:] == ["alone", "other"]
    gone = {line["id"]: line["twin"] for line in Documents(tmp_path / "two").rejected()}
    assert gone in ({"2": "3"}, {"3": "2"})


def test_a_bad_record_fails_alone_and_is_put_aside(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", rows_of(5, 30))
    with (tmp_path / "a.jsonl").open("ab") as file:
        file.write(b'{"text": 3}\n\n\xff\xfe\n{"id": "last", "text": "one more", "source": "web", "meta": {}}\n')
    ledger = decide_files([ExactDedup()], tmp_path / "a.jsonl", tmp_path / "out", engine="inline")
    assert ledger.reasons("read", "failed") == {"invalid_utf8": 1, "text_not_a_string": 1}
    assert ledger.total("read", "kept") == 31
    assert [doc.id for doc in Documents(tmp_path / "out")][-1] == "last"
    lost = {line["id"]: line["reason"] for line in Documents(tmp_path / "out").rejected() if line["stage"] == "read"}
    assert lost == {"a.jsonl#L31": "text_not_a_string", "a.jsonl#L33": "invalid_utf8"}


def test_a_span_that_loses_no_line_comes_through(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [("1", "one line that is long enough to count as one", "web")])
    write(tmp_path / "b.jsonl", [("2", "another line that is long enough to count as one", "web")])
    ledger = decide_files([ExactDedup(level="line", min_chars=10)], tmp_path, tmp_path / "out", engine="inline")
    assert ledger.total("exact_dedup", "kept") == 2


def test_a_file_that_changes_meanwhile_or_afterwards_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same size too: what was proven of one text says nothing of another."""
    path = write(tmp_path / "a.jsonl", rows_of(9, 30))
    attempt = engine._attempt

    def changing(stage: str, task: engine.Task, scratch: Path) -> tuple[Path, float]:
        done = attempt(stage, task, scratch)
        if task.name.startswith("sketch"):
            path.write_bytes(path.read_bytes().replace(b"tea", b"TEA"))
        return done

    with monkeypatch.context() as patch:
        patch.setattr(engine, "_attempt", changing)
        with pytest.raises(BadInput, match="was changed while it was read"):
            decide_files(STAGES["documents"], path, tmp_path / "out", engine="inline", max_dropped=1.0)
    decide_files(STAGES["documents"], path, tmp_path / "out", engine="inline", max_dropped=1.0)
    path.write_bytes(path.read_bytes().replace(b"TEA", b"pea"))
    with pytest.raises(BadInput, match="is missing or not what was decided about"):
        list(Documents(tmp_path / "out"))


def test_bands_that_the_default_threshold_could_not_have(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", rows_of(2, 20))
    stage = NearDedup(threshold=0.95, num_perm=2, bands=2, rows=1)
    decide_files([stage], tmp_path / "a.jsonl", tmp_path / "out", engine="inline", max_dropped=1.0)
    assert on_files(tmp_path / "out") == in_memory([stage], rows_of(2, 20))


def test_nothing_and_one_document(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    stages = [ExactDedup(), NearDedup(), Mixture()]
    ledger = decide_files(stages, tmp_path / "a.jsonl", tmp_path / "none", engine="inline")
    assert (list(Documents(tmp_path / "none")), ledger.total("mixture", "kept")) == ([], 0)
    write(tmp_path / "a.jsonl", [("1", "a", "web")])
    decide_files(stages, tmp_path / "a.jsonl", tmp_path / "one", engine="inline")
    assert [doc.id for doc in Documents(tmp_path / "one")] == ["1"]


def test_a_source_that_loses_nearly_all_is_an_error_that_says_so(tmp_path: Path) -> None:
    """ChenghaoMou/text-dedup#96: 700 thousand sentences became 600, and nobody was told before the end."""
    write(tmp_path / "a.jsonl", [(str(at), "hello there", "chat") for at in range(1000)])
    sentence = r"decide: 'chat' lost 999 of 1,000 documents \(allowed: 90.00%\); the commonest reason is exact_dup"
    with pytest.raises(TooManyLost, match=sentence):
        decide_files([ExactDedup()], tmp_path / "a.jsonl", tmp_path / "out", engine="inline")
    assert not (tmp_path / "out" / "ledger.json").exists()
    told: list[str] = []
    with listen(lambda event: told.append(event.get("text", "")), instead=True):
        ledger = decide_files([ExactDedup()], tmp_path / "a.jsonl", tmp_path / "out", engine="inline", max_dropped=1.0)
    assert ledger.total("exact_dedup", "kept") == 1
    assert "decide: 'chat' loses 999 of 1,000 documents (100%); look at them" in told


def test_what_a_mixture_leaves_out_is_no_loss(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [(str(at), f"text {at:04d}", "web") for at in range(1000)])
    ledger = decide_files([Mixture(budget=90)], tmp_path / "a.jsonl", tmp_path / "out", engine="inline")
    assert ledger.total("mixture", "kept") == 10


def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of tasks that really run from now on."""
    names: list[str] = []
    attempt = engine._attempt

    def watched(stage: str, task: engine.Task, scratch: Path) -> tuple[Path, float]:
        names.append(task.name)
        return attempt(stage, task, scratch)

    monkeypatch.setattr(engine, "_attempt", watched)
    return names


def test_a_moved_limit_does_not_read_the_texts_again_and_the_same_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.jsonl", rows_of(9, 60))
    names = ran(monkeypatch)
    for stage in (NearDedup(threshold=0.8), NearDedup(threshold=0.8), NearDedup(threshold=0.6)):
        names.clear()
        decide_files([stage], tmp_path / "a.jsonl", tmp_path / "out", engine="inline", max_dropped=1.0)
        told = [name for name in names if not name.startswith("survey")]
        if stage.threshold == 0.6:
            assert told
            assert not any(name.startswith("sketch") for name in told)
    assert on_files(tmp_path / "out") == in_memory([NearDedup(threshold=0.6)], rows_of(9, 60))


def test_a_second_run_over_the_first_does_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.jsonl", rows_of(9, 60))
    decide_files(STAGES["mixture"], tmp_path / "a.jsonl", tmp_path / "out", engine="inline", max_dropped=1.0)
    before, names = on_files(tmp_path / "out"), ran(monkeypatch)
    decide_files(STAGES["mixture"], tmp_path / "a.jsonl", tmp_path / "out", engine="inline", max_dropped=1.0)
    assert (on_files(tmp_path / "out"), names) == (before, [])


@pytest.mark.parametrize("at", ["sketch", "near_dedup-groups", "near_dedup-evidence", "near_dedup-verdicts", "apply"])
def test_a_run_that_is_broken_off_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    write(tmp_path / "a.jsonl", rows_of(9, 60))
    attempt = engine._attempt

    def broken(stage: str, task: engine.Task, scratch: Path) -> tuple[Path, float]:
        if task.name.startswith(at):
            raise KeyboardInterrupt
        return attempt(stage, task, scratch)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "_attempt", broken)
        with pytest.raises(KeyboardInterrupt):
            decide_files(STAGES["documents"], tmp_path / "a.jsonl", tmp_path / "out", engine="inline", max_dropped=1.0)
    with pytest.raises(BadInput, match="no complete folder"):
        Documents(tmp_path / "out")
    decide_files(STAGES["documents"], tmp_path / "a.jsonl", tmp_path / "out", engine="inline", max_dropped=1.0)
    assert on_files(tmp_path / "out") == in_memory(STAGES["documents"], rows_of(9, 60))


SCRIPT = """
import sys
from prep_lib.decide import decide_files
from prep_lib.text.exact_dedup import ExactDedup
from prep_lib.text.near_dedup import NearDedup
if __name__ == "__main__":
    print("ready", flush=True)
    decide_files([ExactDedup(), NearDedup()], sys.argv[1], sys.argv[2], workers=2, max_dropped=1.0, memory_budget=2**22)
"""


@pytest.mark.kill
def test_a_killed_run_ends_as_if_nothing_had_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prep_lib.inputs.BUNDLES", 2**40)
    for number in range(12):
        name = tmp_path / "in" / f"{number}.jsonl"
        name.parent.mkdir(exist_ok=True)
        write(name, [(f"{number}-{id}", text, source) for id, text, source in rows_of(number, 60)])
    told = {"engine": "inline", "max_dropped": 1.0}
    decide_files([ExactDedup(), NearDedup()], tmp_path / "in", tmp_path / "clean", **told)
    killing.done_at_last(SCRIPT, tmp_path / "in", tmp_path / "out", at=killing.moments(2, seed=6, low=0.5, high=3.0))
    whole = [
        {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
        for folder in (tmp_path / "clean", tmp_path / "out")
    ]
    assert whole[0] == whole[1]


def test_a_full_disk_is_one_line_and_two_runs_do_not_mix(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    rows = [(str(at), "".join(map(chr, chance.integers(97, 123, 300))), "web") for at in range(3000)]
    source = write(tmp_path / "a.jsonl", rows)
    with killing.small_disk(tmp_path / "disk") as disk, pytest.raises(NoSpace, match="no space left for"):
        decide_files([NearDedup()], source, disk / "out", engine="inline")
    with lock(tmp_path / "out"), pytest.raises(RunLocked, match="is in use by process"):
        decide_files([NearDedup()], source, tmp_path / "out", engine="inline")


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        ([], "decide: no stage given"),
        ([Normalize()], "decide: normalize cannot decide over files; it takes a corpus stage"),
        ([ExactDedup(), ExactDedup()], "two stages are named 'exact_dedup'"),
    ],
)
def test_what_cannot_decide_is_refused(tmp_path: Path, stages: list, sentence: str) -> None:
    write(tmp_path / "a.jsonl", rows_of(1, 5))
    with pytest.raises(BadParameter, match=sentence):
        decide_files(stages, tmp_path / "a.jsonl", tmp_path / "out", engine="inline")
    assert not (tmp_path / "out").exists()


def test_foreign_files_and_inputs_are_never_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "part-1.jsonl", rows_of(1, 5))
    with pytest.raises(BadInput, match=r"holds part-1\.jsonl, which no run left there"):
        decide_files([ExactDedup()], tmp_path / "part-1.jsonl", tmp_path, engine="inline")
    run_files([], tmp_path / "part-1.jsonl", tmp_path / "parts", engine="inline")
    with pytest.raises(BadInput, match="holds what a run of stages wrote"):
        decide_files([ExactDedup()], tmp_path / "part-1.jsonl", tmp_path / "parts", engine="inline")
    assert len(list(Documents(tmp_path / "parts"))) == 5
    decide_files([ExactDedup()], tmp_path / "part-1.jsonl", tmp_path / "out", engine="inline")
    (tmp_path / "out" / "part-00000.mine").write_text("mine")
    (tmp_path / "parts" / "part-00000.mine").write_text("mine")
    decide_files([ExactDedup()], tmp_path / "part-1.jsonl", tmp_path / "out", engine="inline")
    run_files([], tmp_path / "part-1.jsonl", tmp_path / "parts", engine="inline")
    assert (tmp_path / "out" / "part-00000.mine").read_text() == "mine"
    assert (tmp_path / "parts" / "part-00000.mine").read_text() == "mine"


def test_repeated_documents_are_not_decided_about_again(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [("1", "one two", "web")])
    decide_files([Mixture(budget=70)], tmp_path / "a.jsonl", tmp_path / "mix", engine="inline")
    assert len(Documents(tmp_path / "mix")) == 10
    with pytest.raises(BadInput, match="documents that are repeated already cannot be decided about"):
        decide_files([ExactDedup()], tmp_path / "mix", tmp_path / "out", engine="inline")


def test_columns_hold_a_place_for_every_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [("1", "same", "web"), ("2", "same", "web")])
    path.write_bytes(b"\n\n" + path.read_bytes() + b'\n{"text": "end"}\n')
    decide_files([ExactDedup()], path, tmp_path / "out", engine="inline")
    copies = np.load(tmp_path / "out" / "part-00000.copies.npy")
    assert (copies.dtype, len(copies), copies.sum()) == (np.uint16, 6, 2)


# ── a sample ──


def test_a_sample_is_the_one_every_other_step_draws_and_says_so(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", rows_of(1, 60))
    notes = list[str]()
    with listen(lambda event: notes.append(str(event.get("text", ""))), instead=True):
        run_files([], source, tmp_path / "read", sample=20, engine="inline")
        decide_files([Mixture()], source, tmp_path / "decided", sample=20, engine="inline")
    drawn = {doc.id for doc in Documents(tmp_path / "read")}
    assert {doc.id for doc in Documents(tmp_path / "decided")} == drawn
    assert 0 < len(drawn) < 60
    assert "decide: a sample, about 20 of 60 records; all figures are the sample's own" in notes
    # What was drawn already is drawn again as a whole, whatever comes of it later says that it was a sample.
    decide_files([ExactDedup()], tmp_path / "read", tmp_path / "again", sample=20, engine="inline")
    seen = Documents(tmp_path / "again")
    assert seen.ledger.total("read", "in") == len(drawn)
    assert seen.contents["sample"] == pytest.approx(20 / 60)
    run_files([Normalize()], tmp_path / "again", tmp_path / "texts", engine="inline")
    assert Documents(tmp_path / "texts").contents["sample"] == pytest.approx(20 / 60)


def test_a_sample_and_everything_share_no_work(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", rows_of(2, 60))
    for sample in (0, 20, 0):
        decide_files([ExactDedup(), NearDedup()], source, tmp_path / "out", sample=sample, engine="inline")
        fresh = tmp_path / f"fresh-{sample}"
        decide_files([ExactDedup(), NearDedup()], source, fresh, sample=sample, engine="inline")
        assert [doc.id for doc in Documents(tmp_path / "out")] == [doc.id for doc in Documents(fresh)]
    assert Documents(tmp_path / "out").contents["sample"] is None
    with pytest.raises(BadParameter, match="decide: sample=-1"):
        decide_files([ExactDedup()], source, tmp_path / "none", sample=-1, engine="inline")
    assert not (tmp_path / "none").exists()


def test_a_folder_of_verdicts_that_is_linked_stands_by_itself_and_leaves_its_twin_alone(tmp_path: Path) -> None:
    source, one, other = write(tmp_path / "a.jsonl", rows_of(3, 60)), tmp_path / "one", tmp_path / "other"

    def decide(run: Path, threshold: float) -> list[str]:
        stages = [ExactDedup(), NearDedup(threshold=threshold, shingle="word2")]
        decide_files(stages, run / "texts", run / "verdicts", engine="inline", max_dropped=1.0)
        return [doc.id for doc in Documents(run / "verdicts")]

    run_files([Normalize()], source, one / "texts", engine="inline")
    kept = decide(one, 0.9)
    for part in ("texts", "verdicts"):
        fs.link_tree(one / part, other / part, skip=("lock", "owner.json", "tmp"))
    before = {path: path.read_bytes() for path in one.rglob("*") if path.is_file()}
    ran = list[str]()
    with listen(lambda event: ran.append(str(event.get("name", ""))), instead=True):
        assert decide(other, 0.9) == kept
        fewer = decide(other, 0.5)
    assert len(fewer) < len(kept)
    assert not any(name.startswith("sketch") for name in ran)
    assert {path: path.read_bytes() for path in before} == before
    shutil.rmtree(one)
    assert [doc.id for doc in Documents(other / "verdicts")] == fewer
