"""The packing page: strips and table say the same numbers, in text too."""

from __future__ import annotations

import re

import pytest

from prep_lib.tokens.pack import ALGORITHMS
from widgets.packing.page import MOST, page
from widgets.packing.state import SWEPT, State, count, save


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_same_state_gives_the_same_bytes_and_names_every_algorithm(algorithm: str, lang: str) -> None:
    html = page(State(count([3, 3, 4, 1, 5]), algorithm, 4, lang))
    assert html == page(State(count([3, 3, 4, 1, 5]), algorithm, 4, lang))
    assert all(name in html for name in (*ALGORITHMS, "one_row"))
    assert f"★ {algorithm}" in html


def test_a_strip_says_its_numbers() -> None:
    html = page(State(count([3, 1, 2], [1, 1, 1]), "best_fit", 4))
    assert 'aria-label="pack 0: 2 documents, 100.0 % filled"' in html
    assert 'title="padding 2"' in html
    assert 'title="3 tokens"' in html


def test_a_cut_is_marked_on_both_sides_of_the_border() -> None:
    html = page(State(count([3, 3], [1, 1]), "concat", 4))
    assert 'class="d1 goes"' in html
    assert 'class="d1 came"' in html
    assert 'title="1 tokens, cut here"' in html


def test_a_document_shows_its_eos_where_it_ends_and_not_where_it_is_cut() -> None:
    html = page(State(count([3, 3]), "concat", 4))
    assert [kind in html for kind in ('class="d0 ends"', 'class="d1 goes"', 'class="d1 came ends"')] == [True] * 3
    assert 'aria-label="pack 0: 2 documents, 100.0 % filled, EOS 1"' in html
    assert "EOS: a document ends" in html
    assert "EOS" not in page(State(count([3, 3], [1, 1]), "concat", 4)).split("</style>")[1]


def test_the_table_compares() -> None:
    cells = "<td>4</td><td>0.0 %</td><td>3</td><td>0</td><td>37.5 %</td>"
    html = re.sub(' data-v="[^"]*"', "", page(State(count([3, 3, 4, 1, 5], [1, 1, 1, 1, 1]), "concat", 4)))
    assert f'<tr class="best"><td class="word">★ concat</td>{cells}<td>31.2 %</td></tr>' in html
    html = page(State(count([3, 3, 4, 1, 5]), "concat", 4))
    assert f'<tr class="best"><td class="word">★ concat</td>{cells}</tr>' in html


def test_the_curves_say_their_numbers_and_show_the_size_chosen() -> None:
    html = page(State(count([600, 400]), "concat", 1024, tail="drop"))
    assert html.count('role="img" aria-label="documents cut. concat: 512 50.0 %, 1,024 0.0 %, ') == 1
    assert "best_fit: 512 60.0 %, 1,024 0.0 %" in html, "tokens lost"
    assert html.count('class="here"') == 4
    assert 'class="here"' not in page(State(count([600, 400]), "concat", 64))
    spots = [tuple(map(float, spot)) for spot in re.findall(r"translate\((\S+) (\S+)\)", html)]
    assert len(spots) == 4 * 4 * len(SWEPT) + 4
    assert all(0 < x < 280 and 0 < y < 158 for x, y in spots)


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
