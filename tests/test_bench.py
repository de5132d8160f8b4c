"""The table of benches: a figure keeps its room, its goal and its day, and a missed goal stands first."""

from __future__ import annotations

import json

import figures


def written(folder, stamp, *rows):
    whole = [{"unit": "s", "goal": None, "runs": 1, "met": None, "against": "", **row} for row in rows]
    (folder / f"{stamp}.json").write_text(json.dumps({"machine": {"load": 0.5, "cores": 2}, "rows": whole}))


def test_the_newest_figure_of_a_row_counts_and_says_its_day(tmp_path):
    written(
        tmp_path, "20260101-000000", {"room": "b", "name": "n", "value": 1}, {"room": "b", "name": "old", "value": 9}
    )
    written(tmp_path, "20260102-000000", {"room": "b", "name": "n", "value": 2}, {"room": "a", "name": "n", "value": 3})
    found = [(row["room"], row["name"], row["value"], row["day"]) for row in figures.newest(tmp_path)]
    assert found == [("a", "n", 3, "20260102"), ("b", "n", 2, "20260102"), ("b", "old", 9, "20260101")]


def test_what_missed_its_goal_stands_first_and_peers_say_how_they_are_set_up(tmp_path):
    written(tmp_path, "20260101-000000", {"room": "b", "name": "slow <one>", "value": 1, "goal": "> 2", "met": False})
    (tmp_path / "peers").mkdir()
    (tmp_path / "peers" / "other.txt").write_text("# Two words\n# of it.\nother==1.2\nnumpy\n")
    page = figures.page(tmp_path, tmp_path / "peers")
    assert page.index("Missed") < page.index("slow &lt;one&gt;") < page.index("Two words of it.")
    assert "other==1.2, numpy" in page
    assert "1 of them missed" in page
