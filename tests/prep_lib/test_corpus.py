"""Real text from this installation, the same every time; and a planted world whose answers hold."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from prep_lib import corpus
from prep_lib.errors import BadParameter, UnknownName

TOY = '''"""A toy module with a few things to ask about."""

def twice(x: int, *, by: float = 2.0) -> float:
    """Return x multiplied by a factor that is two unless you say otherwise.

    Parameters
    ----------
    x : int
        The number that is multiplied.

    Examples
    --------
    >>> twice(3)
    6.0
    """

def twice_over(x):
    """Return x multiplied by two and then by two again, four times x in all."""

def _hidden():
    """Nobody should ever be asked about this private function."""

class Box:
    """A box that holds things until somebody takes them out of it again."""

    def __init__(self, size, lid=True):
        self.size = size

    @property
    def full(self):
        """Whether nothing more fits into the box, its lid notwithstanding."""

    @full.setter
    def full(self, value): ...

    async def take(self, name, /, *rest):
        """Take a thing out of the box and return it to the one who asked."""
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that is the only source: one good file, and every kind of bad one."""
    folder = tmp_path / "toy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("", encoding="utf-8")
    (folder / "good.py").write_text(TOY, encoding="utf-8")
    (folder / "latin.py").write_bytes(
        '# coding: latin-1\n"""Caf\xe9 opening hours, and what they serve."""'.encode("latin-1")
    )
    (folder / "syntax.py").write_text("def broken(:\n", encoding="utf-8")
    (folder / "bytes.py").write_bytes(b'"""Not UTF-8: \xff\xfe."""')
    (folder / "nul.py").write_bytes(b"x = 1\x00")
    (folder / "lone.py").write_text('"""A lone surrogate \\ud800 cannot be stored as UTF-8."""', encoding="utf-8")
    (folder / "escape.py").write_text('"""An invalid escape \\d is a warning, never an error."""', encoding="utf-8")
    (folder / "big.py").write_text("#" * (corpus.MAX_BYTES + 1), encoding="utf-8")
    (folder / "_private.py").write_text('"""Private modules are not part of the corpus at all."""', encoding="utf-8")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_x.py").write_text('"""Nor are tests, however long their docstring."""', encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(corpus, "PACKAGES", ("toy_package", "package_that_is_not_here"))
    monkeypatch.setattr(corpus, "_library", lambda: [])
    return folder


# ------------------------------------------------------------------------------------------------- the toy package


def test_a_bad_source_file_is_counted_and_its_neighbours_go_on(toy: Path) -> None:
    skipped: Counter[str] = Counter()
    asked = {row["query"].split("`")[1] for row in corpus.questions(1000, skipped=skipped)}
    assert asked == {
        "toy_package.escape", "toy_package.latin", "toy_package.good", "toy_package.good.twice",
        "toy_package.good.twice_over", "toy_package.good.Box", "toy_package.good.Box.full", "toy_package.good.Box.take",
    }  # fmt: skip
    assert skipped == {
        "source_does_not_parse": 3, "lone_surrogate": 1, "source_too_large": 1, "package_not_installed": 1,
    }  # fmt: skip


def test_signatures_are_those_of_the_source(toy: Path) -> None:
    entries = corpus._read(toy / "good.py", "toy_package.good")
    assert not isinstance(entries, str)
    assert {entry.name: entry.signature for entry in entries} == {
        "": "",
        "twice": "twice(x: int, *, by: float=2.0) -> float",
        "twice_over": "twice_over(x)",
        "Box": "Box(size, lid=True)",
        "Box.full": "",
        "Box.take": "take(self, name, /, *rest)",
    }
    assert entries[0].members == ("twice", "twice_over", "Box")


def test_each_answer_is_made_of_the_docstring(toy: Path) -> None:
    entries = corpus._read(toy / "good.py", "toy_package.good")
    assert not isinstance(entries, str)
    twice = next(entry for entry in entries if entry.name == "twice")
    answers = [corpus._ask(twice, question) for question in corpus.QUESTIONS]
    summary = "Return x multiplied by a factor that is two unless you say otherwise."
    signature = "```python\ntoy_package.good.twice(x: int, *, by: float=2.0) -> float\n```"
    assert answers[:4] == [
        ("What does `toy_package.good.twice` do?", summary),
        ("Show the signature of `toy_package.good.twice`.", f"{signature}\n\n{summary}"),
        ("`toy_package.good.twice` 有什么用？", f"文档对 `toy_package.good.twice` 的说明是：\n\n{summary}"),
        ("Give an example of `toy_package.good.twice`.", "```python\n>>> twice(3)\n6.0\n```"),
    ]
    assert corpus._ask(entries[0], corpus.QUESTIONS[6]) == (
        "Which documented names are in `toy_package.good`?",
        "`toy_package.good` has `twice`, `twice_over`, `Box`.",
    )


def test_the_rejected_answer_is_about_the_most_similar_name_or_cut(toy: Path) -> None:
    rows = {row["query"].split("`")[1]: row for row in corpus.preferences(1000)}
    assert rows["toy_package.good.twice"]["rejected"].endswith(rows["toy_package.good.twice_over"]["chosen"][-40:])
    box = rows["toy_package.good.Box"]
    assert box["chosen"].startswith(box["rejected"])


# --------------------------------------------------------------------------------------------- this installation


def test_documents_come_from_every_source_bounded_and_storable() -> None:
    docs = list(corpus.documents(250))
    assert Counter(doc.source for doc in docs[:10]) == dict.fromkeys(
        ("stdlib", "packages", "readme", "licence", "pydoc_html"), 2
    )
    assert len(docs) == len({doc.id for doc in docs}) == 250
    assert all(doc.utf8 and doc.meta["format"] in {"text", "markdown", "rst", "html"} for doc in docs)


def test_no_path_of_this_machine_is_in_a_text() -> None:
    home, host = str(Path.home()), os.uname().nodename
    private = {sys.prefix, sys.base_prefix + "/lib", sysconfig.get_path("purelib"), sysconfig.get_path("stdlib")}
    for doc in corpus.documents(250):
        assert not [path for path in private if path in doc.text], doc.id
        if doc.source == "pydoc_html":
            assert home not in doc.text
            assert host not in doc.text or host.isalpha()
            assert 'href="file:' not in doc.text
            assert "at&nbsp;0x" not in doc.text


def test_the_bound_on_characters_holds() -> None:
    docs = list(corpus.documents(100, characters=100_000))
    assert 0 < len(docs) < 100
    assert sum(len(doc.text) for doc in docs) <= 100_000
    assert list(corpus.documents(0)) == []


def test_questions_are_varied_and_never_repeat() -> None:
    rows = list(corpus.questions(1000))
    lengths = [len(row["query"]) + len(row["response"]) for row in rows]
    assert len({row["query"] for row in rows}) == len(rows) == 1000
    assert 100 <= statistics.median(lengths) <= 400 < 1000 < max(lengths)
    assert all(set(row) == {"query", "response"} and row["response"].strip() for row in rows)
    chinese = [row for row in rows if any("一" <= character <= "鿿" for character in row["query"])]
    assert 0.2 < len(chinese) / len(rows) < 0.5


def test_conversations_take_turns() -> None:
    rows = list(corpus.conversations(100))
    shapes = Counter(tuple(message["role"] for message in row["messages"]) for row in rows)
    pair = ("user", "assistant")
    assert set(shapes) == {pair * 2, pair * 3, ("system", *pair * 2), ("system", *pair * 3)}
    assert all(message["content"].strip() for row in rows for message in row["messages"])


def test_preferences_differ_and_share_their_query() -> None:
    rows = list(corpus.preferences(100))
    assert len({row["query"] for row in rows}) == 100
    assert all(row["chosen"] != row["rejected"] and row["rejected"].strip() for row in rows)
    cut = sum(row["chosen"].startswith(row["rejected"]) for row in rows)
    assert 10 < cut < 90


@pytest.mark.parametrize(
    ("kind", "language", "sources"),
    [
        ("english", "en", {"stdlib", "packages", "readme", "licence"}),
        ("chinese", "zh", {"planted", "workbench", "jupyter"}),
        ("code", "python", {"stdlib_code", "packages_code"}),
    ],
)
def test_records_for_pretraining_say_their_source_and_language(kind: str, language: str, sources: set[str]) -> None:
    rows = list(corpus.KINDS[kind](120))
    assert {row["source"] for row in rows} == sources
    assert {row["language"] for row in rows} == {language}
    assert len({row["id"] for row in rows}) == len(rows) > 30
    assert all(set(row) == {"id", "text", "source", "language"} for row in rows)
    assert all(0 < len(row["text"]) <= corpus.MAX_RECORD and row["text"].strip() for row in rows)


def test_the_chinese_records_are_chinese() -> None:
    text = "".join(row["text"] for row in corpus.chinese())
    assert sum("一" <= character <= "鿿" for character in text) > 0.4 * len(text)


def test_code_that_cannot_be_read_is_counted(toy: Path) -> None:
    skipped: Counter[str] = Counter()
    read = {row["id"] for row in corpus.code(100, skipped=skipped)}
    assert {"toy_package.good.py", "toy_package.syntax.py"} <= read
    assert skipped == {"source_unreadable": 2, "text_too_long": 1, "package_not_installed": 1}


def test_fewer_rows_are_the_first_of_more() -> None:
    for rows in (corpus.questions, corpus.conversations, corpus.preferences, corpus.english, corpus.code):
        assert list(rows(5)) == list(rows(20))[:5]


SCRIPT = """
import hashlib, json, sys
from prep_lib.corpus import write
paths = write(sys.argv[1], documents=210, questions=40, conversations=20, preferences=20)
digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
print(json.dumps([digests, sorted({"torch", "pandas", "datasets", "tokenizers", "IPython"} & set(sys.modules))]))
"""


def test_every_process_writes_the_same_bytes_and_imports_no_package_it_reads(tmp_path: Path) -> None:
    answers = []
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": number, "PYTHONDOCS": f"https://example.org/{number}"}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, "out"],
            cwd=tmp_path / number,
            env=environment,
            capture_output=True,
            check=True,
        )
        answers.append(json.loads(done.stdout))
    assert answers[0] == answers[1]
    assert answers[0][1] == []
    lines = (tmp_path / "1" / "out" / "documents.jsonl").read_text(encoding="utf-8").split("\n")
    assert sorted(json.loads(lines[0])) == ["id", "meta", "source", "text"]


def test_npz_files_are_uneven_in_order_and_hold_the_text(tmp_path: Path) -> None:
    import numpy as np

    paths = corpus.write_npz(tmp_path / "one", limit=20)
    again = corpus.write_npz(tmp_path / "two", limit=20)
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]
    sizes = []
    for source, path in enumerate(paths):
        with np.load(path) as found:
            shard = {name: found[name] for name in found.files}
        sizes.append(len(shard["row"]))
        assert shard["input_ids"].shape == (sizes[-1], 128)
        assert (shard["source"] == source).all()
        assert shard["row"].tolist() == list(range(sizes[-1]))
        assert shard["attention_mask"].sum(axis=1).tolist() == shard["length"].tolist()
        text = shard["input_ids"][shard["attention_mask"] == 1].astype(np.uint8).tobytes()
        assert text.decode("utf-8").endswith("\n")
    assert max(sizes) > 4 * min(sizes)


def test_nonsense_is_refused() -> None:
    with pytest.raises(UnknownName, match="unknown kind of rows 'question'; did you mean 'questions'"):
        corpus.write("nowhere", question=3)
    with pytest.raises(BadParameter, match="limit must be >= 0, got -1"):
        corpus.questions(-1)


# ------------------------------------------------------------------------------------------------ the planted world


def case(kind: str) -> corpus.Planted:
    return next(planted for planted in corpus.planted() if planted.kind == kind)


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[at : at + 5]) for at in range(len(words) - 4)}


def test_twins_name_an_earlier_document() -> None:
    seen: dict[str, str] = {}
    for planted in corpus.planted():
        text = planted.document.text
        assert planted.document.id not in seen
        assert (planted.twin is not None) == (planted.kind in {"exact_twin", "near_twin"})
        if planted.kind == "exact_twin":
            assert text == seen[planted.twin or ""]
        if planted.kind == "near_twin":
            mine, other = shingles(text), shingles(seen[planted.twin or ""])
            assert 0.8 < len(mine & other) / len(mine | other) < 1
        seen[planted.document.id] = text


def test_the_answers_stand_in_their_texts() -> None:
    for kind in ("personal_data", "benchmark_item"):
        assert case(kind).answer
        assert all(piece in case(kind).document.text for piece in case(kind).answer)
    assert len(case("benchmark_item").answer[0].split()) >= 13, "shorter than the usual n-gram of decontamination"


def test_exactly_one_line_is_mojibake_and_its_repair_is_known() -> None:
    lines = case("mojibake").document.text.splitlines()
    assert lines[-1].encode("cp1252").decode("utf-8") == case("mojibake").answer[0] != lines[-1]
    assert all(line.isascii() for line in lines[:-1])


def test_the_other_cases_are_what_they_say() -> None:
    assert case("empty").document.text == ""
    assert not any(character.isascii() and character.isalpha() for character in case("chinese").document.text)
    assert max(map(len, case("navigation").document.text.splitlines())) < 40
    assert len(case("plain").document.text.split()) >= 80


# ------------------------------------------------------------------------------------------------------- web pages

WEB = """
import hashlib, json, sys
from pathlib import Path
from prep_lib.corpus import write_pages
paths = write_pages(sys.argv[1], limit=3)
print(json.dumps({str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}))
"""


def test_every_process_writes_the_same_web(tmp_path: Path) -> None:
    answers = []
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        run = [sys.executable, "-c", WEB, "out"]
        environment = {**os.environ, "PYTHONHASHSEED": number}
        done = subprocess.run(run, cwd=tmp_path / number, env=environment, capture_output=True, check=True)
        answers.append(json.loads(done.stdout))
    assert answers[0] == answers[1]
    names = [page.path for page in corpus.pages()]
    assert len(set(names)) == len(names) == len(answers[0]) - 6
    assert [Path("out", name) for name in names] == [Path(path) for path in answers[0]][: len(names)]


@pytest.mark.parametrize("page", corpus.pages(), ids=lambda page: page.path)
def test_what_is_to_be_kept_stands_in_the_page_and_is_no_furniture(page: corpus.Page) -> None:
    import html

    text = html.unescape(page.data.decode({"windows-1252": "cp1252"}.get(page.encoding, page.encoding)))
    bare = text.replace("<code>", "").replace("</code>", "")
    assert all(line in bare for line in page.keep)
    assert all(piece in text for piece in corpus.FURNITURE[page.language])
    assert not any(piece in line for piece in corpus.FURNITURE[page.language] for line in page.keep)
    assert bool(page.keep) == (page.kind != "navigation")


def test_each_planted_case_of_the_web_is_there_once_and_is_what_it_says() -> None:
    planted = {page.planted: page for page in corpus.pages() if page.planted}
    assert sorted(planted) == [
        "code", "definition_list", "listing", "mojibake", "navigation", "near_twin", "repeated_block",
        "table_with_list", "wrong_charset",
    ]  # fmt: skip
    assert len(planted) == sum(1 for page in corpus.pages() if page.planted)
    broken = planted["mojibake"]
    assert broken.keep[-1].encode("cp1252").decode("utf-8") == broken.repaired != broken.keep[-1]
    assert b'charset="utf-8"' in planted["wrong_charset"].data
    with pytest.raises(UnicodeDecodeError):
        planted["wrong_charset"].data.decode("utf-8")
    assert any(line.startswith("    ") for line in planted["code"].keep)
    assert any(line.startswith("\t") for line in planted["code"].keep)


def test_an_archive_member_holds_one_record_and_one_is_torn() -> None:
    import gzip
    import zlib

    torn = [capture for capture in corpus.captures() if capture.answer == "damaged_member"]
    assert len(torn) == 1
    for capture in corpus.captures():
        if capture in torn:
            with pytest.raises((zlib.error, gzip.BadGzipFile, EOFError)):
                gzip.decompress(capture.data)
        else:
            assert gzip.decompress(capture.data).startswith(b"WARC/1.0\r\n")
    with pytest.raises(BadParameter, match="limit must be >= 0, got -1"):
        corpus.write_pages("nowhere", -1)
