from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import killing
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prep_lib import files as fs
from prep_lib import pipeline, seeds
from prep_lib.documents import Documents
from prep_lib.errors import BadInput, BadParameter, BadRecord, NoSpace, RunLocked, TaskFailed, TooManyLost
from prep_lib.events import listen
from prep_lib.ledger import Ledger
from prep_lib.locks import lock
from prep_lib.pipeline import draw, original, run_files
from prep_lib.record import Cut, Document, Drop
from prep_lib.text.quality import Quality


@dataclass(frozen=True, kw_only=True)
class Upper:
    """Changes letters, tells how many; fails on a question mark."""

    name: str = "upper"
    counted = ("changes",)

    def map(self, doc: Document) -> Document | Drop:
        if "?" in doc.text:
            raise BadRecord("question", "a question mark")
        if "x" in doc.text:
            return Drop("has_x")
        number = sum(letter.islower() for letter in doc.text)
        if not number:
            return doc
        return replace(doc, text=doc.text.upper(), meta={**doc.meta, "changes": {"letters": number}})


@dataclass(frozen=True, kw_only=True)
class Length:
    """Measures the length, drops what is too long, cuts off a star at the beginning."""

    name: str = "length"
    most: int = 5
    reasons = ("too_long",)
    signals = ("length", "stars")

    def measure(self, doc: Document) -> np.ndarray:
        return np.array([len(doc.text), doc.text.count("*")], np.float64)

    def verdict(self, doc: Document, values: np.ndarray) -> Drop | Cut | None:
        if values[0] > self.most:
            return Drop("too_long", float(values[0]), self.most)
        return Cut(((0, 1),), "star") if doc.text.startswith("*") else None

    def judge(self, doc: Document) -> Drop | Cut | None:
        return self.verdict(doc, self.measure(doc))


STAGES = [Upper(), Length()]


def write(path: Path, texts: Sequence[str], **extra: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": text, **extra}) + "\n" for text in texts))
    return path


def clean(files: object, out: Path, **options: object) -> Ledger:
    return run_files(STAGES, files, out, **{"engine": "inline", "max_failed": 1.0, **options})  # type: ignore[arg-type]


def test_every_document_is_written_or_named(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", ["ab", "x", "*cd", "abcdef", "?", "OK"])
    source.write_text(source.read_text() + "not json\n")
    ledger = clean(source, tmp_path / "out")
    ledger.check()
    assert ledger.stages == ["read", "upper", "length", "write"]
    assert ledger.reasons("read", "failed") == {"bad_json": 1}
    assert ledger.reasons("upper", "dropped") == {"has_x": 1}
    assert ledger.reasons("upper", "failed") == {"question": 1}
    assert ledger.reasons("length", "dropped") == {"too_long": 1}
    found = Documents(tmp_path / "out")
    assert [(doc.id, doc.text) for doc in found] == [("a.jsonl#L1", "AB"), ("a.jsonl#L3", "CD"), ("a.jsonl#L6", "OK")]
    assert [doc.meta for doc in found] == [{"changes": {"letters": 2}}, {"changes": {"letters": 2}}, {}]
    told = {line["id"]: (line["stage"], line["flow"], line["reason"], line["value"]) for line in found.rejected()}
    assert told == {
        "a.jsonl#L2": ("upper", "dropped", "has_x", None),
        "a.jsonl#L4": ("length", "dropped", "too_long", 6.0),
        "a.jsonl#L5": ("upper", "failed", "question", None),
        "a.jsonl#L7": ("read", "failed", "bad_json", None),
    }
    assert found.tallies == {("upper", "changes", "a.jsonl", "letters"): 10, ("length", "cut", "a.jsonl", "star"): 1}
    assert found.ledger == ledger


def test_what_was_measured_is_there_of_kept_and_dropped(tmp_path: Path) -> None:
    clean(write(tmp_path / "a.jsonl", ["ab", "*cd", "abcdef"]), tmp_path / "out")
    table = Documents(tmp_path / "out").numbers("length")
    assert table["length"].tolist() == [2, 3, 6]
    assert table["stars"].tolist() == [0, 1, 0]
    assert table["verdict"].tolist() == [-1, -2, 0]
    assert Documents(tmp_path / "out").reasons == {"length": ["too_long"]}
    with pytest.raises(BadInput, match="nothing in out was measured by 'quality'"):
        Documents(tmp_path / "out").numbers()


def test_a_funnel_a_language(tmp_path: Path) -> None:
    lines = [
        {"text": text, "language": code} for text, code in (("ab", "en"), ("*b", "en"), ("abcdef", "zh"), ("a", "zh"))
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    clean(tmp_path / "a.jsonl", tmp_path / "out")
    assert [tuple(row.values()) for row in Documents(tmp_path / "out").funnel("length")] == [
        ("en", "kept, lines cut", 1, 2),
        ("en", "kept", 1, 2),
        ("zh", "too_long", 1, 6),
        ("zh", "kept", 1, 1),
    ]


def test_processes_draw_what_one_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        write(tmp_path / "in" / f"{name}.jsonl", [name * at for at in range(40)])
    run_files([], tmp_path / "in", tmp_path / "out", engine="inline")
    alone = [draw(tmp_path / folder, 30) for folder in ("in", "out")]
    monkeypatch.setattr(pipeline, "SPREAD", 0)
    told: list[dict[str, Any]] = []
    with listen(told.append, instead=True):
        assert [draw(tmp_path / folder, 30, workers=2) for folder in ("in", "out")] == alone
    assert [event["tasks"] for event in told if event["event"] == "begin"] == [3]  # "out" is one file
    assert draw(tmp_path / "in", 200, workers=2) == draw(tmp_path / "in", 0)


def test_documents_are_drawn_and_found_as_a_run_reads_them(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.jsonl", ["ab"] * 50)
    (tmp_path / "in" / "b.txt").write_text("text")
    (tmp_path / "in" / "c.jsonl").write_text("broken")
    run_files([], tmp_path / "in", tmp_path / "out", engine="inline")
    assert draw(tmp_path / "in", 0) == list(Documents(tmp_path / "out"))
    assert draw(tmp_path / "in", 7) == draw(tmp_path / "out", 7)
    for size in (1, 7, 52, 60):
        lots = sorted(seeds.key(42, "sample", doc.id) for doc in draw(tmp_path / "in", 0))[:size]
        assert draw(tmp_path / "in", size) == [
            doc for doc in draw(tmp_path / "in", 0) if seeds.key(42, "sample", doc.id) in lots
        ]
    found = original(tmp_path / "in", "a.jsonl#L3")
    assert isinstance(found, Document)
    assert found.text == "ab"
    assert isinstance(original(tmp_path / "in", "c.jsonl#L1"), BadRecord)
    assert original(tmp_path / "in", "d.jsonl#L1") is None
    assert original(tmp_path / "out", "in/b.txt") == draw(tmp_path / "in", 0)[-1]


def test_a_document_is_found_by_its_id(tmp_path: Path) -> None:
    clean(write(tmp_path / "a.jsonl", ["ab", "abcdef"]), tmp_path / "out")
    found = Documents(tmp_path / "out")
    kept, gone = found.find("a.jsonl#L1"), found.find("a.jsonl#L2")
    assert kept is not None
    assert gone is not None
    assert kept.document is not None
    assert (kept.document.text, kept.rejected, kept.measured) == ("AB", None, {"length": {"length": 2, "stars": 0}})
    assert gone.document is None
    assert gone.rejected is not None
    assert gone.rejected["reason"] == "too_long"
    assert found.find("a.jsonl#L9") is None


def test_a_field_names_the_source_and_the_rest_is_meta(tmp_path: Path) -> None:
    ledger = clean(write(tmp_path / "a.jsonl", ["ab"], source="web", topic="tea"), tmp_path / "out")
    assert ledger.sources() == ["web"]
    (doc,) = Documents(tmp_path / "out")
    assert (doc.source, doc.meta["topic"]) == ("web", "tea")
    assert clean(tmp_path / "a.jsonl", tmp_path / "out", source_field="").sources() == ["a.jsonl"]


def test_documents_of_a_run_go_through_the_next_with_their_ids(tmp_path: Path) -> None:
    run_files([Upper()], write(tmp_path / "a.jsonl", ["ab", "abcdef"], source="web"), tmp_path / "one", engine="inline")
    run_files([Length()], tmp_path / "one", tmp_path / "two", engine="inline")
    (doc,) = Documents(tmp_path / "two")
    assert (doc.id, doc.source, doc.text) == ("a.jsonl#L1", "web", "AB")
    (tmp_path / "one" / "ledger.json").unlink()
    with pytest.raises(BadInput, match=r"pipeline: .*one is not complete: the run that writes it did not end"):
        run_files([Length()], tmp_path / "one", tmp_path / "two", engine="inline")


@given(texts=st.lists(st.text("abx?*", max_size=7), max_size=12), cut=st.integers(0, 12), span=st.integers(1, 80))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_survives_does_not_depend_on_order_or_on_how_files_are_cut(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, texts: list[str], cut: int, span: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    one = clean(write(folder / "one" / "a.jsonl", texts), folder / "out1")
    monkeypatch.setattr(fs, "SPAN", span)
    halves = [write(folder / "two" / name, part) for name, part in (("b.jsonl", texts[cut:]), ("a.jsonl", texts[:cut]))]
    two = clean(halves, folder / "out2")
    survivors = (
        [sorted(doc.text for doc in Documents(folder / name)) for name in ("out1", "out2")] if texts else [[], []]
    )
    assert survivors[0] == survivors[1]
    for stage in ("read", "upper", "length"):
        for flow in ("dropped", "failed", "kept"):
            assert one.total(stage, flow) == two.total(stage, flow)
            assert one.total(stage, flow, unit="characters") == two.total(stage, flow, unit="characters")


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.startswith(".")}


def test_the_same_bytes_for_one_worker_or_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prep_lib.inputs.BUNDLES", fs.SPAN)  # every file a task
    for name in ("a", "b", "c"):
        write(tmp_path / "in" / f"{name}.jsonl", [f"{name}{number}" for number in range(50)])
    clean(tmp_path / "in", tmp_path / "one")
    clean(tmp_path / "in", tmp_path / "two", engine="processes", workers=2)
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert len(Documents(tmp_path / "two").parts) == 3


def test_a_second_run_does_nothing_and_a_changed_stage_does_it_again(tmp_path: Path) -> None:
    source, events = write(tmp_path / "a.jsonl", ["ab", "abcdef"]), list[dict]()
    clean(source, tmp_path / "out")
    before = content(tmp_path / "out")
    with listen(events.append, instead=True):
        clean(source, tmp_path / "out")
    assert [event["done"] for event in events if event["event"] == "begin"] == [1]
    assert content(tmp_path / "out") == before
    ledger = run_files([Upper(), Length(most=9)], source, tmp_path / "out", engine="inline")
    assert ledger.total("length", "kept") == 2


def test_parts_of_an_older_larger_run_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prep_lib.inputs.BUNDLES", fs.SPAN)
    for name in ("a", "b"):
        write(tmp_path / "in" / f"{name}.jsonl", [name])
    clean(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in" / "b.jsonl").unlink()
    clean(tmp_path / "in", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").glob("part-*")) == [
        "part-00000.jsonl.zst",
        "part-00000.length.npy",
    ]
    assert [doc.text for doc in Documents(tmp_path / "out")] == ["A"]


def test_numbers_of_any_size_come_back_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"text": "ab", "n": {2**70}}}\n')
    run_files([], tmp_path / "a.jsonl", tmp_path / "out", engine="inline")
    found = Documents(tmp_path / "out")
    here = found.find("a.jsonl#L1")
    assert here is not None
    assert here.document is not None
    assert here.document.meta["n"] == next(iter(found)).meta["n"] == 2**70


def test_an_incomplete_folder_is_not_opened(tmp_path: Path) -> None:
    clean(write(tmp_path / "a.jsonl", ["ab"]), tmp_path / "out")
    (tmp_path / "out" / "ledger.json").unlink()
    with pytest.raises(BadInput, match="is no complete folder of documents"):
        Documents(tmp_path / "out")


def test_a_sample_is_the_same_wherever_the_files_are_cut(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", ["ab"] * 400)
    clean(source, tmp_path / "all")
    drawn = draw(tmp_path / "all", 40)
    assert len(drawn) == 40
    assert [doc.id for doc in drawn] == [doc.id for doc in draw(tmp_path / "all", 40)]
    assert [doc.id for doc in draw(tmp_path / "all", 40, seed=7)] != [doc.id for doc in drawn]
    assert len(draw(tmp_path / "all", 0)) == 400
    ledger = clean(source, tmp_path / "some", sample=100)
    assert 60 < ledger.total("read", "in") < 140
    assert ledger.total("read", "in") == len(Documents(tmp_path / "some"))


def test_too_many_failures_and_too_many_drops_stop_a_run(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", ["?"] * 30 + ["ab"])
    with pytest.raises(TooManyLost, match=r"pipeline: 30 of 31 records failed .*question"):
        clean(source, tmp_path / "out", max_failed=0.001)
    source = write(tmp_path / "b.jsonl", ["x"] * 30 + ["ab"])
    with pytest.raises(TooManyLost, match=r"'b.jsonl' lost 30 of 31 documents .* has_x \(30\), for example b.jsonl#L1"):
        clean(source, tmp_path / "out", max_dropped=0.5)
    assert clean(source, tmp_path / "out", max_dropped=0.99).total("write", "kept") == 1


def test_nonsense_is_refused_before_any_work(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", ["ab"])
    for wrong, told in (
        ({"keep_rejected": "some"}, "keep_rejected must be"),
        ({"sample": -1}, "sample=-1"),
        ({"max_dropped": 2.0}, "max_dropped=2.0"),
    ):
        with pytest.raises(BadParameter, match=told):
            clean(source, tmp_path / "out", **wrong)
    with pytest.raises(BadInput, match="lies where the output is written"):
        clean(source, tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-00000.bin").write_text("theirs")
    with pytest.raises(BadInput, match=r"holds part-00000.bin, which no run left there"):
        clean(write(tmp_path / "a.jsonl", ["ab"]), tmp_path / "out")
    assert (tmp_path / "out" / "part-00000.bin").read_text() == "theirs"


def test_an_empty_file_gives_an_empty_complete_folder(tmp_path: Path) -> None:
    ledger = clean(write(tmp_path / "a.jsonl", []), tmp_path / "out")
    assert ledger.total("read", "in") == 0
    assert list(Documents(tmp_path / "out")) == []


def test_rejected_texts_are_all_kept_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prep_lib.rejected.KEPT_TEXTS", 1)
    source = write(tmp_path / "a.jsonl", ["x1", "x2"])
    clean(source, tmp_path / "out")
    assert sum(line["text"] is not None for line in Documents(tmp_path / "out").rejected()) == 1
    clean(source, tmp_path / "out", keep_rejected="all")
    assert [line["text"] for line in Documents(tmp_path / "out").rejected()] == ["x1", "x2"]


def test_a_value_no_line_can_hold_fails_at_writing_and_takes_nobody_with_it(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Odd:
        name: str = "odd"

        def map(self, doc: Document) -> Document:
            return replace(doc, meta={"score": float("nan")}) if doc.text == "ab" else doc

    ledger = run_files([Odd()], write(tmp_path / "a.jsonl", ["ab", "cd"]), tmp_path / "out", engine="inline")
    assert ledger.reasons("write", "failed") == {"nan": 1}
    assert [doc.text for doc in Documents(tmp_path / "out")] == ["cd"]


def test_a_map_keeps_the_id_and_a_stage_has_a_name_of_its_own(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Renames:
        name: str = "renames"

        def map(self, doc: Document) -> Document:
            return replace(doc, id="1") if doc.text == "ab" else replace(doc, text=None)

    source = write(tmp_path / "a.jsonl", ["ab"])
    with pytest.raises(BadParameter, match=r"renames made '1' of document a.jsonl#L1; a map keeps the id"):
        run_files([Renames()], source, tmp_path / "out", engine="inline")
    with pytest.raises(BadParameter, match=r"gave document a.jsonl#L1 a text or a source that is no text"):
        run_files([Renames()], write(tmp_path / "a.jsonl", ["cd"]), tmp_path / "out", engine="inline")
    for name in ("read", "write", "a/b", ""):
        with pytest.raises(BadParameter, match="a stage cannot be named"):
            run_files([Renames(name=name)], source, tmp_path / "out", engine="inline")


def test_a_judge_may_reuse_its_array_and_must_name_its_reasons(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Reuses(Length):
        held: np.ndarray = field(default_factory=lambda: np.zeros(2), hash=False)
        reasons = ("too_short",)

        def measure(self, doc: Document) -> np.ndarray:
            self.held[0] = len(doc.text)
            return self.held

    source = write(tmp_path / "a.jsonl", ["ab", "c"])
    run_files([Reuses()], source, tmp_path / "out", engine="inline")
    assert Documents(tmp_path / "out").numbers("length")["length"].tolist() == [2, 1]
    with pytest.raises(BadParameter, match="length dropped for 'too_long', which is none of its reasons"):
        run_files([Reuses(most=1)], source, tmp_path / "out", engine="inline")


def test_a_judge_that_measures_nothing_keeps_what_it_meets(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", ["ab", "c"])
    ledger = run_files([Quality(rules="other=pass en=pass", force=True)], source, tmp_path / "out", engine="inline")
    assert ledger.total("quality", "kept") == 2
    assert len(Documents(tmp_path / "out").numbers("quality")) == 2


def test_any_text_may_stand_where_a_language_is_expected(tmp_path: Path) -> None:
    told = ("English (UK)", "English (US)", "中文语言普通话简体字", 7)
    lines = [json.dumps({"text": "ab", "language": code}) + "\n" for code in told]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    clean(tmp_path / "a.jsonl", tmp_path / "out")
    found = [row["language"] for row in Documents(tmp_path / "out").funnel("length")]
    assert found == ["7", "English (UK)", "English (US)", "中文语言普通话简"]


def test_an_error_of_a_stage_names_it_and_the_document(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Fails:
        name: str = "fails"

        def judge(self, doc: Document) -> None:
            raise ValueError("boom")

    with pytest.raises(TaskFailed, match=r"ValueError: boom \(while fails handled document a.jsonl#L1\)"):
        run_files([Fails()], write(tmp_path / "a.jsonl", ["ab"]), tmp_path / "out", engine="inline")


def test_half_a_surrogate_pair_fails_its_document_alone(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Halves:
        name: str = "halves"

        def map(self, doc: Document) -> Document:
            return replace(doc, text="\ud800") if doc.text == "ab" else doc

    ledger = run_files([Halves()], write(tmp_path / "a.jsonl", ["ab", "cd"]), tmp_path / "out", engine="inline")
    assert ledger.reasons("write", "failed") == {"lone_surrogate": 1}
    assert [line["text"] for line in Documents(tmp_path / "out").rejected()] == ["\\ud800"]


def test_a_harmed_part_is_seen_by_whoever_reads_and_written_again_by_the_next_run(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", [f"text {number}" for number in range(50)])
    run_files([], source, tmp_path / "out", engine="inline")
    (part,) = Documents(tmp_path / "out").parts
    whole, texts, seen = part.read_bytes(), [f"text {number}" for number in range(50)], 0
    for place in range(0, len(whole), 7):
        part.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        # A flipped bit may be one that says nothing (of a window's size); a text is never another one.
        with contextlib.suppress(BadInput):
            assert [doc.text for doc in Documents(tmp_path / "out")] == texts
            seen += 1
    assert seen < 3
    run_files([], source, tmp_path / "out", engine="inline")
    assert part.read_bytes() == whole
    part.unlink()
    with pytest.raises(BadInput, match=r"part-00000.jsonl.zst is missing or cut"):
        Documents(tmp_path / "out")
    with pytest.raises(BadInput, match=r"part-00000.jsonl.zst is missing or cut"):
        run_files([], tmp_path / "out", tmp_path / "next", engine="inline")


def test_a_run_that_broke_off_over_an_older_one_keeps_what_it_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prep_lib.inputs.BUNDLES", 2**40)
    for name in ("a", "b"):
        write(tmp_path / "in" / f"{name}.jsonl", [name, "x"])
    run_files([Upper()], tmp_path / "in", tmp_path / "out", engine="inline")
    with pytest.raises(ValueError, match="enough"):
        with listen(lambda event: stop(event)):
            run_files([Upper(), Length()], tmp_path / "in", tmp_path / "out", engine="inline")
    with pytest.raises(BadInput, match="no complete folder"):
        Documents(tmp_path / "out")
    events: list[dict] = []
    with listen(events.append, instead=True):
        run_files([Upper(), Length()], tmp_path / "in", tmp_path / "out", engine="inline")
    assert [event["done"] for event in events if event["event"] == "begin" and event["stage"] == "clean"] == [1]


def stop(event: dict) -> None:
    if event["event"] == "task" and event["stage"] == "clean":
        raise ValueError("enough")


def test_rules_in_a_file_count_by_what_the_file_says(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Listed:
        name: str = "listed"
        path: str
        words: frozenset[str] = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "words", frozenset(Path(self.path).read_text().split()))

        def judge(self, doc: Document) -> Drop | None:
            return Drop("listed") if doc.text in self.words else None

    source, words = write(tmp_path / "a.jsonl", ["ab", "cd"]), tmp_path / "words.txt"
    for text, kept in (("ab", 1), ("ab cd", 0), ("", 2)):
        words.write_text(text)
        ledger = run_files([Listed(path=str(words))], source, tmp_path / "out", engine="inline")
        assert ledger.total("listed", "kept") == kept


def test_the_output_of_a_run_is_no_part_of_a_folder_of_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "in" / "a.jsonl", ["ab"])
    clean(tmp_path / "in", tmp_path / "in" / "out")
    assert clean(tmp_path / "in", tmp_path / "in" / "out").total("read", "in") == 1
    assert "left out out/, which a run wrote" in capsys.readouterr().out


def test_two_runs_over_files_of_one_name_are_not_read_together(tmp_path: Path) -> None:
    for name in ("one", "two"):
        clean(write(tmp_path / name / "a.jsonl", ["ab"]), tmp_path / f"out_{name}")
    with pytest.raises(BadInput, match=r"both hold documents of a.jsonl, whose ids would be the same"):
        clean([tmp_path / "out_one", tmp_path / "out_two"], tmp_path / "out")
    assert clean([tmp_path / "one", tmp_path / "two"], tmp_path / "out").total("write", "kept") == 2


def test_a_file_that_is_not_what_its_name_says_fails_alone(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.jsonl", ["ab"])
    (tmp_path / "in" / "b.parquet").write_bytes(b"PAR1")
    ledger = clean(tmp_path / "in", tmp_path / "out")
    assert ledger.reasons("read", "failed") == {"unreadable_file": 1}
    assert ledger.total("write", "kept") == 1


#: Thirty files a task each, read slowly enough to be killed among them.
SCRIPT = """
import sys
import prep_lib.inputs
from prep_lib.pipeline import draw, original, run_files

prep_lib.inputs.BUNDLES = 2**40
print("begun", flush=True)
run_files([], sys.argv[1], sys.argv[2], workers=2)
"""


@pytest.mark.kill
def test_a_killed_run_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    for number in range(30):
        write(tmp_path / "in" / f"{number}.jsonl", [f"{number} {line} " * 30 for line in range(200)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("prep_lib.inputs.BUNDLES", 2**40)
        run_files([], tmp_path / "in", tmp_path / "clean", engine="inline")
    killing.done_at_last(SCRIPT, tmp_path / "in", tmp_path / "out", at=killing.moments(3, seed=5, low=0.0, high=1.5))
    assert content(tmp_path / "out") == content(tmp_path / "clean")


def test_two_runs_at_once_do_not_mix(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", ["ab"])
    with lock(tmp_path / "out"), pytest.raises(RunLocked, match="is in use by process"):
        clean(source, tmp_path / "out")
    assert clean(source, tmp_path / "out").total("write", "kept") == 1


def test_a_full_disk_is_one_line_and_the_next_run_continues(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    source = write(tmp_path / "a.jsonl", ["".join(map(chr, rng.integers(97, 123, 2000))) for _ in range(1000)])
    with killing.small_disk(tmp_path / "disk") as disk:
        with pytest.raises(NoSpace, match="no space left for"):
            run_files([], source, disk / "out", engine="inline")
    ledger = run_files([], source, tmp_path / "out", engine="inline")
    assert ledger.total("write", "kept") == 1000
