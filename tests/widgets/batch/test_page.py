"""A batch as a page: numbers in words beside every colour, text of the data as text, and the time by what is done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from prep_lib.errors import BadParameter
from prep_lib.feed.loader import Profile
from widgets.batch.page import PIECES, costs, view

EOS = 1


def batch(*rows: list[tuple[list[int], bool]], width: int = 12) -> dict[str, Any]:
    """Rows of documents, each its ids and whether its EOS stands here."""
    ids, segments = np.full((len(rows), width), EOS), np.full((len(rows), width), -1)
    for at, documents in enumerate(rows):
        place = 0
        for number, (tokens, ends) in enumerate(documents):
            tokens = [*tokens, EOS] if ends else tokens
            ids[at, place : place + len(tokens)], segments[at, place : place + len(tokens)] = tokens, number
            place += len(tokens)
    return {"input_ids": torch.tensor(ids), "segment_ids": torch.tensor(segments)}


def text(words: str) -> list[int]:
    return [5 + byte for byte in words.encode()]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_same_batch_gives_the_same_bytes(tokenizer: Any, lang: str) -> None:
    made = batch([(text("cat"), True), (text("dog"), False)], [(text("x"), True)])
    assert view(made, tokenizer, lang=lang).html == view(made, tokenizer, lang=lang).html


def test_colours_are_told_in_words(tokenizer: Any) -> None:
    html = view(batch([(text("cat"), True), (text("dog"), False)], [(text("x"), True)]), tokenizer).html
    assert 'class="d0 ends"' in html
    assert 'class="d1 goes"' in html
    assert 'title="4 tokens, the last is EOS"' in html
    assert 'title="3 tokens, no EOS: it goes on elsewhere"' in html
    assert 'aria-label="row 0: 2 pieces, 58.3 % filled"' in html
    assert 'title="padding 10"' in html
    assert "2 rows of 12 places: 3 pieces of documents, 9 tokens, padding 62.5 %" in html


def test_a_token_says_where_it_stands_and_what_it_is_to_become(tokenizer: Any) -> None:
    made = batch([(text("ab"), True)], width=4)
    made["position_ids"] = torch.tensor([[0, 1, 2, 0]])
    made["labels"] = torch.tensor([[103, EOS, -100, -100]])
    html = view(made, tokenizer).html
    assert "id 102 · place 0 · position 0 · bytes 61 · target id 103" in html
    assert "<small>1</small>" in html
    assert "place 3 · position 0 · bytes" in html
    assert "2 of its places have a target" in html
    assert "never a target" in html
    # What ends a document has the id of the padding, which ends nothing.
    assert (html.count('class="chip ctl eos"'), html.count('class="chip pad"')) == (1, 1)


def test_who_may_look_at_whom_is_drawn_and_said(tokenizer: Any) -> None:
    html = view(batch([(text("abc"), True), (text("d"), True)], width=8), tokenizer).html
    assert 'viewBox="0 0 8 8"' in html
    assert 'class="o0" d="M0 0V4H4Z"' in html
    assert 'class="o1" d="M4 4V6H6Z"' in html
    assert 'class="none" d="M6 6V8H8Z"' in html
    assert "Row 0: 2 triangles, one a document" in html
    assert "36.1 % of all" in html  # 10 + 3 pairs of 36


def test_text_of_the_data_is_text(tokenizer: Any, nasty: str) -> None:
    html = view(batch([(text(nasty), True)], width=200), tokenizer).html
    assert "<script" not in html
    assert "<img" not in html


def test_long_rows_of_many_pieces_stay_light(tokenizer: Any) -> None:
    made = batch([([7], True)] * 2000, width=4096)
    html = view(made, tokenizer).html
    assert f"{2001 - PIECES:,} more pieces" in html
    assert "Places 0 to 399 of 4,096, where the first document ends." in html
    assert len(html) < 500_000


def test_the_end_of_the_first_document_is_in_view(tokenizer: Any) -> None:
    html = view(batch([([7] * 999, True), ([8] * 500, True)], width=2000), tokenizer).html
    assert "Places 800 to 1,199 of 2,000" in html
    assert "piece 0 · 1,000 tokens" in html
    assert "place 999 · position – · bytes" in html
    assert html.count('class="chip ctl eos"') == 1


def test_a_batch_that_cannot_be_shown(tokenizer: Any) -> None:
    with pytest.raises(BadParameter, match="make the dataset with segment_ids=True"):
        view({"input_ids": np.zeros((1, 2))}, tokenizer)
    with pytest.raises(BadParameter, match="row 1 of a batch of 1"):
        view(batch([(text("a"), True)]), tokenizer, row=1)


def test_costs_are_bars_numbers_and_one_sentence() -> None:
    page = costs(Profile(2e-3, 1e-3, 5e-4, 5e-4, 4e-3, 16, "read", "disk"))
    assert repr(page) == "<profile: read takes most, disk>"
    assert 'aria-label="read 50.0 %, copy and convert 25.0 %, labels and masks 12.5 %, hand over 12.5 %"' in page.html
    assert "4,000 rows a second; 4 ms a batch" in page.html
    assert "500 µs" in page.html
    assert "★ read" in page.html
    assert "set prefetch_factor to 2" in page.html
