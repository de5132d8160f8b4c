"""The packing page: strips and table say the same numbers, in text too."""

from __future__ import annotations

import pytest

from prep_lib.tokens.pack import ALGORITHMS
from widgets.packing.page import MOST, page
from widgets.packing.state import State, count, save


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_same_state_gives_the_same_bytes_and_names_every_algorithm(algorithm: str, lang: str) -> None:
    html = page(State(count([3, 3, 4, 1, 5]), algorithm, 4, lang))
    assert html == page(State(count([3, 3, 4, 1, 5]), algorithm, 4, lang))
    assert all(name in html for name in (*ALGORITHMS, "one_row"))
    assert f"★ {algorithm}" in html


def test_a_strip_says_its_numbers() -> None:
    html = page(State(count([3, 1, 2]), "best_fit", 4))
    assert 'aria-label="pack 0: 2 documents, 100.0 % filled"' in html
    assert 'title="padding 2"' in html
    assert 'title="3 tokens"' in html


def test_a_cut_is_marked_on_both_sides_of_the_border() -> None:
    html = page(State(count([3, 3]), "concat", 4))
    assert 'class="d1 goes"' in html
    assert 'class="d1 came"' in html
    assert 'title="1 tokens, cut here"' in html


def test_the_table_compares() -> None:
    html = page(State(count([3, 3, 4, 1, 5], [1, 1, 1, 1, 1]), "concat", 4))
    cells = "<td>4</td><td>0.0 %</td><td>3</td><td>0</td><td>31.2 %</td>"
    assert f'<tr class="best"><td class="word">★ concat</td>{cells}</tr>' in html


def test_thousands_of_pieces_in_one_pack_are_drawn_together() -> None:
    html = page(State(count([1] * 5000), "best_fit", 5000))
    assert html.count('class="d') < MOST + 20
    assert f"{5000 - MOST:,} more documents, {5000 - MOST:,} tokens" in html
    assert len(html) < 300_000


def test_nothing_to_pack() -> None:
    assert "There is no document to pack." in page(State(count([])))


def test_the_page_says_while_it_differs_from_the_parameters_cell() -> None:
    state = save(State(count([3]), pack_size=8))
    assert "differ from the parameters cell" not in page(state)
    turned = State(state.data, "concat", 8, saved=state.saved)
    assert "packing = &#x27;concat&#x27;" in page(turned)
