"""A registry refuses to overwrite, forgives a cell run twice, and its error helps."""

from __future__ import annotations

import pytest

from prep_lib.errors import BadParameter, UnknownName
from prep_lib.registry import Registry


@pytest.fixture
def colours() -> Registry[object]:
    registry: Registry[object] = Registry("example", "colour")
    registry.add("red", "ff0000")
    registry.add("green", "00ff00")
    return registry


def made(number: int) -> type:
    class Strategy:
        value = number

    return Strategy


def test_names_are_found_and_listed_sorted(colours: Registry[object]) -> None:
    assert colours["red"] == "ff0000"
    assert list(colours) == ["green", "red"]
    assert "red" in colours
    assert "blue" not in colours
    assert None not in colours


def test_an_unknown_name_lists_the_known_ones_and_the_nearest(colours: Registry[object]) -> None:
    with pytest.raises(UnknownName, match=r"example: unknown colour 'gren'; did you mean 'green'\? known: green, red$"):
        colours["gren"]
    with pytest.raises(UnknownName, match=r"unknown colour 'x'; known: none$"):
        Registry("example", "colour")["x"]


def test_a_taken_name_is_refused_and_what_was_there_stays(colours: Registry[object]) -> None:
    with pytest.raises(BadParameter, match="example: colour 'red' is taken by 'ff0000'; choose another name"):
        colours.add("red", "cc0000")
    assert colours["red"] == "ff0000"


def test_the_same_item_again_is_fine(colours: Registry[object]) -> None:
    item = ["a"]
    colours.add("list", item)
    colours.add("list", item)
    assert colours["list"] is item
    with pytest.raises(BadParameter, match="is taken"):
        colours.add("list", ["a"])


def test_a_class_defined_again_by_the_same_cell_replaces_the_older_one(colours: Registry[object]) -> None:
    first, second = made(1), made(2)
    colours.add("mine", first)
    colours.add("mine", second)
    assert colours["mine"] is second


def test_two_lambdas_are_two_things_though_they_share_a_name(colours: Registry[object]) -> None:
    colours.add("f", lambda: 1)
    with pytest.raises(BadParameter, match="colour 'f' is taken"):
        colours.add("f", lambda: 2)


@pytest.mark.parametrize("name", [made(1), None, "", 3])
def test_a_name_is_text(colours: Registry[object], name: object) -> None:
    with pytest.raises(BadParameter, match="example: the name of a colour must be text"):
        colours.add(name, "x")  # type: ignore[arg-type]
    assert list(colours) == ["green", "red"]
