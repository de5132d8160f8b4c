from __future__ import annotations

import os
from pathlib import Path

import fsspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from prep_lib import files as fs
from prep_lib.engine import Crew
from prep_lib.errors import BadInput
from prep_lib.events import listen
from prep_lib.inputs import Source, bundles, find, joined, names, pieces, survey
from prep_lib.pipeline import run_files

ENDINGS = (".jsonl", ".jsonl.gz")


def surveyor(path: str, count: bool) -> fs.Survey:
    return fs.survey(path, span=10)


def base(paths: list[str]) -> list[str]:
    return [os.path.basename(path) for path in paths]


def test_a_folder_is_its_files_in_natural_order(tmp_path: Path) -> None:
    for name in ("c10.jsonl", "c9.jsonl", ".hidden.jsonl", "notes.txt", "deep/a.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert base(find(tmp_path, ENDINGS, where="x")) == ["c9.jsonl", "c10.jsonl"]
    assert base(find(tmp_path, ENDINGS, where="x", deep=True)) == ["c9.jsonl", "c10.jsonl", "a.jsonl"]


def test_links_that_lead_round_in_circles_are_gone_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.jsonl").write_text("")
    for name, target in (("a/b", "b"), ("b/a", "a"), ("a/up", "."), (".hidden", "a")):
        (tmp_path / name).symlink_to(tmp_path / target)
    assert len(find(tmp_path, ENDINGS, where="x", deep=True)) == 2


def test_a_named_file_is_taken_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "odd.name").write_text("")
    assert base(find([tmp_path / "odd.name"], ENDINGS, where="x")) == ["odd.name"]


def test_what_is_behind_an_address_is_found_and_stamped() -> None:
    system = fsspec.filesystem("memory")
    for name, text in (("/found/b.jsonl", "{}\n"), ("/found/a.jsonl", "{}\n{}\n"), ("/found/deep/c.jsonl", "{}\n")):
        system.pipe_file(name, text.encode())
    paths = find("memory://found", ENDINGS, where="x")
    assert base(paths) == ["a.jsonl", "b.jsonl"]
    assert base(find("memory://found", ENDINGS, where="x", deep=True)) == ["a.jsonl", "b.jsonl", "c.jsonl"]
    before = fs.stamp(paths[0])
    assert before[0] == 6
    assert fs.stamp(paths[0]) == before
    system.pipe_file("/found/a.jsonl", b"{}\n{} ")
    assert fs.stamp(paths[0]) != before


def test_what_is_not_there_twice_or_turned_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput, match=r"x: no such input: .*nowhere"):
        find(tmp_path / "nowhere", ENDINGS, where="x")
    with pytest.raises(BadInput, match=r"x: no data file in .*; looked for \.jsonl"):
        find(tmp_path, ENDINGS, where="x")
    (tmp_path / "a.jsonl").write_text("")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "a.jsonl")
    with pytest.raises(BadInput, match="given twice"):
        find([tmp_path / "a.jsonl", tmp_path / "link.jsonl"], ENDINGS, where="x")
    (tmp_path / "link.jsonl").unlink()
    (tmp_path / "rejected.jsonl").write_text("")
    assert base(find(tmp_path, ENDINGS, where="x")) == ["a.jsonl"]
    assert "x: left out rejected.jsonl" in capsys.readouterr().out


def test_names_are_as_short_as_they_can_be_and_never_equal() -> None:
    assert names(["/a/x", "/b/x"]) == ["a/x", "b/x"]
    assert names(["memory://a/x", "memory://b/x"]) == ["a/x", "b/x"]
    assert names(["/a/x.html", "/a/y.jsonl"], lambda path: 2 if path.endswith("html") else 1) == ["a/x.html", "y.jsonl"]


def test_names_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(BadInput, match=r"two files are called \\udcff.txt"):
        names(["/a/\udcff.txt", "/a/\\udcff.txt"])


def test_a_survey_remembers_and_reads_what_changed(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")]
    for path in paths:
        Path(path).write_text(f'{{"text": "{path[-7]}"}}\n{{}}\n')
    told: list[dict[str, object]] = []

    def surveyed() -> list[list[int]]:
        with listen(told.append, instead=True), Crew("inline") as crew:
            found = survey(paths, tmp_path / "out", crew, where="x", surveyor=surveyor)
        return [[span.start for span in source.survey.spans] for source in found]

    first = surveyed()
    assert first == [[0, 14], [0, 14]]
    Path(paths[1]).write_text("{}\n")
    assert surveyed() == [[0, 14], [0]]
    with Crew("inline") as crew:
        sources = survey(paths, tmp_path / "out", crew, where="x", surveyor=surveyor)
    assert [[one.name for one in task] for task in pieces(sources)] == [["a.jsonl", "a.jsonl", "b.jsonl"]]
    assert joined(pieces(sources)[0]) == pieces(sources)[0]


@given(st.lists(st.integers(1, fs.SPAN), max_size=60))
def test_bundles_cover_everything_once_and_stay_small(weights: list[int]) -> None:
    cuts = list(bundles(weights))
    assert [at for first, last in cuts for at in range(first, last)] == list(range(len(weights)))
    assert all(last - first == 1 or sum(weights[first:last]) <= fs.SPAN // 8 for first, last in cuts)


def test_the_parts_of_a_run_are_not_digested_again_by_whoever_reads_them(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n')
    run_files([], tmp_path / "a.jsonl", tmp_path / "docs", engine="inline")
    part, read = str(tmp_path / "docs" / "part-00000.jsonl.zst"), list[str]()

    def reading(path: str, count: bool) -> fs.Survey:
        read.append(path)
        return fs.survey(path)

    def surveyed(**options: bool) -> list[Source]:
        with Crew("inline") as crew:
            return survey([part], tmp_path / f"{len(options)}", crew, where="test", surveyor=reading, **options)

    (known,) = surveyed()
    assert read == []
    assert known.survey == fs.survey(part)
    assert surveyed(rehash=True) == [known]
    assert read == [part]
    Path(part).write_bytes(zstandard.compress(b'{"text": "another"}\n'))
    assert surveyed()[0].digest == fs.digest(part)
