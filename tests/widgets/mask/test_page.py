"""A stored row: every token says what it is and why; nothing from data gets out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from prep_lib.errors import BadParameter
from widgets.mask.page import row


def drawn(html: str) -> list[str]:
    """The classes of the chips in order, the legend apart."""
    return re.findall(r'<b class="(chip[^"]*)" tabindex=0>', html)


def test_padding_is_known_by_length_and_never_by_id(tokenizer: Any) -> None:
    """The EOS inside the first document is no padding, the EOS behind the last one is."""
    shown = row([70, 1, 71, 1, 1], [False, True, True, False, False], tokenizer=tokenizer, lengths=[2, 1])
    assert drawn(shown.html) == ["chip", "chip ctl eos on", "chip on", "chip ctl pad", "chip ctl pad"]
    assert shown.html.count('<span class="new"') == 2
    assert repr(shown) == "<row: 5 places · 2 trained · 2 documents · 2 padding (40.0 %)>"


def test_a_token_says_id_position_and_bytes_and_its_run_says_why(tokenizer: Any) -> None:
    html = row([200, 1], [False, True], tokenizer=tokenizer, names=["a.jsonl#L1"]).html
    assert "<i>id 200 · position 0 · bytes C3</i>" in html
    assert '<i class="u">C3</i>' in html, "half a character is shown as its bytes"
    assert "Not trained. The stored loss mask is False here." in html
    assert "Trained. The stored loss mask is True here." in html
    assert "位置 0 · 字节 C3" in row([200], tokenizer=tokenizer, lang="zh").html


def test_a_row_without_mask_trains_every_token_of_a_document(tokenizer: Any) -> None:
    shown = row([70, 71, 2], tokenizer=tokenizer, lengths=[2], names=["a.jsonl#L1"])
    assert drawn(shown.html) == ["chip", "chip", "chip ctl pad"]
    assert "document 0 of the row · a.jsonl#L1" in shown.html
    assert "This row has no loss mask" in shown.html


def test_documents_of_a_row_without_mask_are_told_apart_and_end_in_their_eos(tokenizer: Any) -> None:
    html = row([70, 1, 71, 1, 72], tokenizer=tokenizer, lengths=[2, 2, 1]).html
    assert drawn(html) == ["chip", "chip ctl eos", "chip", "chip ctl eos", "chip"]
    assert re.findall(r'<span class="(new[^"]*)"', html) == ["new doc o0", "new doc o1", "new doc o2"]
    assert "trained (bold" not in html
    assert "EOS: a document ends" in html


def test_a_row_can_be_looked_at_in_parts(tokenizer: Any) -> None:
    shown = row([70] * 5000, tokenizer=tokenizer, start=4000)
    assert len(drawn(shown.html)) == 1000
    assert "Places 4,000 to 4,999 of 5,000 are drawn." in shown.html
    assert len(row([70] * 5000, tokenizer=tokenizer).html) < 300_000


def test_an_id_the_tokenizer_does_not_have_is_shown_as_such(tokenizer: Any) -> None:
    assert '<i class="u">id 70000</i>' in row([70_000], tokenizer=tokenizer).html


def test_names_of_a_row_are_data(tokenizer: Any, nasty: str) -> None:
    html = row([70], tokenizer=tokenizer, names=[nasty]).html
    assert not re.search(r"<(script|img)", html)


def test_a_row_that_does_not_fit_is_refused(tokenizer: Any) -> None:
    with pytest.raises(BadParameter, match="2 ids, but the mask has 1 entries"):
        row([70, 71], [True], tokenizer=tokenizer)
    with pytest.raises(BadParameter, match="segments of 3 tokens in a row of 2"):
        row([70, 71], tokenizer=tokenizer, lengths=[3])
    with pytest.raises(BadParameter, match="1 segments, but 2 names"):
        row([70, 71], tokenizer=tokenizer, names=["a", "b"])
