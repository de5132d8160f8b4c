"""What happens is told to everyone who listens, and printed in a rhythm nobody minds."""

from __future__ import annotations

from prep_lib import events
from prep_lib.events import emit, listen


def test_a_listener_may_draw_instead_of_the_printed_lines(capsys):
    seen = []
    with listen(seen.append):
        emit("note", text="one")
        with listen(seen.append, instead=True):
            emit("note", text="two")
    emit("note", text="three")
    assert [event["text"] for event in seen] == ["one", "two", "two"]
    assert capsys.readouterr().out == "one\nthree\n"


def test_a_line_every_ten_seconds_then_every_minute(capsys, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(events.time, "monotonic", lambda: now[0])
    emit("begin", stage="s", tasks=1000, done=5)
    for done in range(6, 1000):
        now[0] += 1
        emit("task", stage="s", name="", done=done, tasks=1000, seconds=1)
    emit("end", stage="s", seconds=994)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["s: 5 of 1000 tasks were already done", "s: 15 of 1000 tasks, 10 s"]
    assert lines[-1] == "s: done, 994 s"
    assert len(lines) == 1 + 59 + 6 + 1
