"""What a run wrote, sent to a store: what calls it complete last, nothing twice, nothing old left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from prep_lib.errors import BadInput, BadParameter
from prep_lib.events import listen
from prep_lib.publish import SENT, publish
from prep_lib.remote import Remote

URL = "memory://published/a b#%"
FILES = ("15_pack/manifest.json", "15_pack/shard-00000.bin", "12_dedup/ledger.json", "12_dedup/part-00000.copies.npy")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    MemoryFileSystem.store.clear()
    with listen(lambda event: None, instead=True):
        yield
    MemoryFileSystem.store.clear()


def written(home: Path) -> Path:
    for name in (*FILES, "12_dedup/.prep/kind", "12_dedup/.prep/sketch/0.npy", ".x.1-1.tmp"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    return home


def there() -> set[str]:
    return {name for name in Remote(URL).listing() if name != SENT}


def test_all_but_what_is_hidden_arrives_and_is_not_sent_again(tmp_path: Path) -> None:
    home = written(tmp_path)
    told = publish(home, URL)
    assert there() == {*FILES, "12_dedup/.prep/kind"}
    assert (told.files, told.sent, told.bytes) == (5, 5, sum(len(name) for name in there()))
    assert publish(home, URL).sent == 0


def test_where_a_store_tells_no_version_everything_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prep_lib.remote._TOLD", ())
    home = written(tmp_path)
    publish(home, URL)
    (Remote(URL) / FILES[1]).write_text("x" * len(FILES[1]))
    assert publish(home, URL).sent == 5
    assert (Remote(URL) / FILES[1]).read_text() == FILES[1]


def test_what_calls_a_folder_complete_comes_last_and_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, order = written(tmp_path), list[str]()
    send, unlink = Remote.send, Remote.unlink
    monkeypatch.setattr(Remote, "send", lambda path, file: (order.append(f"+{path.name}"), send(path, file))[1])
    monkeypatch.setattr(Remote, "unlink", lambda path, **how: (order.append(f"-{path.name}"), unlink(path, **how))[1])
    publish(home, URL)
    sent = [name for name in order if name[1:] in {file.rsplit("/", 1)[1] for file in FILES}]
    assert sent[-2:] == ["+ledger.json", "+manifest.json"]
    order.clear()
    # The manifest stays as it is; while its shard changes it is away all the same.
    (home / "15_pack/shard-00000.bin").write_text("new")
    assert publish(home, URL).sent == 2
    told = [name for name in order if name[1:] in {file.rsplit("/", 1)[1] for file in FILES}]
    assert told == ["-manifest.json", "+shard-00000.bin", "+manifest.json"]


def test_a_kill_costs_the_file_that_was_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, send = written(tmp_path), Remote.send

    def breaks(path: Remote, file: Path) -> None:
        if path.name.startswith("shard"):
            raise KeyboardInterrupt
        send(path, file)

    monkeypatch.setattr(Remote, "send", breaks)
    with pytest.raises(KeyboardInterrupt):
        publish(home, URL)
    assert not there() & {"15_pack/manifest.json", "12_dedup/ledger.json"}
    monkeypatch.undo()
    assert publish(home, URL).sent == 3
    assert there() == {*FILES, "12_dedup/.prep/kind"}


def test_files_of_an_older_state_go_and_those_of_others_stay(tmp_path: Path) -> None:
    home = written(tmp_path)
    publish(home, URL)
    (Remote(URL) / "notes.txt").write_text("mine")
    (home / "15_pack/shard-00000.bin").rename(home / "15_pack/shard-00001.bin")
    publish(home, URL)
    assert "notes.txt" in there()
    assert {name for name in there() if "shard" in name} == {"15_pack/shard-00001.bin"}


def test_what_does_not_arrive_as_it_is_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = written(tmp_path)
    monkeypatch.setattr(Remote, "send", lambda path, file: path.write_text("other"))
    with pytest.raises(BadInput, match="did not arrive as it is"):
        publish(home, URL)


@pytest.mark.parametrize(("folder", "url", "told"), [("", "s3:/bucket", "is no address"), ("empty", URL, "no file")])
def test_nonsense_is_refused(tmp_path: Path, folder: str, url: str, told: str) -> None:
    error: Any = BadParameter if url != URL else BadInput
    with pytest.raises(error, match=told):
        publish(tmp_path / folder, url)
