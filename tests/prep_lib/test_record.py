"""What flows cannot change, travels light, and refuses verdicts that mean nothing."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prep_lib.errors import BadParameter
from prep_lib.record import Conversation, Cut, Document, Drop, Message, Preference, Rated, Repeat


def test_a_document_cannot_change() -> None:
    doc = Document("a#L1", "x")
    with pytest.raises(FrozenInstanceError):
        doc.text = "y"  # type: ignore[misc]


def test_utf8_is_encoded_once_and_follows_the_text() -> None:
    doc = Document("a#L1", "你好")
    assert doc.utf8 is doc.utf8
    assert doc.utf8 == "你好".encode()
    assert replace(doc, text="好").utf8 == "好".encode()


def test_the_cached_bytes_do_not_travel_to_a_worker() -> None:
    doc = Document("a#L1", "x" * 1000, "web", {"n": [1]})
    before = len(pickle.dumps(doc))
    assert doc.utf8
    assert len(pickle.dumps(doc)) == before
    again = pickle.loads(pickle.dumps(doc))
    assert again == doc
    assert again.utf8 == doc.utf8


def test_a_document_can_stand_in_a_set_whatever_its_meta_holds() -> None:
    assert len({Document("a", "x", meta={"tags": ["list"]}), Document("a", "x", meta={"tags": ["list"]})}) == 1
    assert Document("a", "x", meta={"n": 1}) != Document("a", "x", meta={"n": 2})


def test_two_documents_share_no_meta() -> None:
    assert Document("a", "x").meta is not Document("b", "x").meta


def test_a_drop_shows_what_it_knows_and_nothing_else() -> None:
    assert repr(Drop("exact_duplicate", twin="a#L1")) == "Drop(reason='exact_duplicate', twin='a#L1')"
    assert repr(Drop("ratio", value=0.0, limit=0.5)) == "Drop(reason='ratio', value=0.0, limit=0.5)"
    assert pickle.loads(pickle.dumps(Drop("x", 1.0))) == Drop("x", 1.0)


@given(st.text(max_size=30), st.data())
def test_a_cut_removes_its_spans_and_nothing_else(text: str, data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.integers(0, max(len(text) - 1, 0))) if text else st.just(set()))
    spans: list[tuple[int, int]] = []
    for at in sorted(gone):
        if spans and spans[-1][1] == at:
            spans[-1] = (spans[-1][0], at + 1)
        else:
            spans.append((at, at + 1))
    kept = "".join(character for at, character in enumerate(text) if at not in gone)
    assert Cut(tuple(spans), "example").apply(text) == kept


@pytest.mark.parametrize(
    "spans", [((3, 3),), ((3, 2),), ((-1, 2),), ((4, 5), (0, 2)), ((0, 3), (2, 5)), ((0, 2), (2, 3))]
)
def test_a_cut_of_nothing_or_out_of_order_is_refused(spans: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(BadParameter, match="must be non-empty and lie behind"):
        Cut(spans, "example")


def test_a_document_repeats_at_least_once() -> None:
    assert Repeat(1).n == 1
    with pytest.raises(BadParameter, match="a document cannot repeat 0 times; use 1 or more, or a Drop"):
        Repeat(0)


def test_a_conversation_is_a_value() -> None:
    talk = Conversation("a#L1", (Message("user", "2 + 2?"), Message("assistant", "4", train=True)))
    assert talk == pickle.loads(pickle.dumps(talk))
    assert hash(talk)
    assert talk.messages[0].train is None


def test_a_message_cannot_change_and_shows_its_fields() -> None:
    said = Message("assistant", "4", train=False)
    with pytest.raises(FrozenInstanceError):
        said.content = "5"  # type: ignore[misc]
    assert repr(said).startswith("Message(role='assistant', content='4', reasoning=None")
    assert replace(said, train=None, weight=0.0) == Message("assistant", "4", weight=0.0)


def test_the_constructor_of_a_message_is_the_one_its_fields_promise() -> None:
    taken = inspect.signature(Message).parameters
    assert [(name, p.default) for name, p in taken.items() if name != "role"] == [
        (field.name, field.default) for field in fields(Message) if field.name != "role"
    ]
    assert vars(Message("user")).keys() == {field.name for field in fields(Message)}


def test_templates_are_told_only_what_there_is() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {}}}
    assert Message("user").as_dict() == {"role": "user", "content": ""}
    told = Message("assistant", "", "hm", (call,), train=True, weight=0.5).as_dict()
    assert told == {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [call]}
    assert told["tool_calls"][0] is call
    answer = Message("tool", "rain", tool_call_id="c1", name="f").as_dict()
    assert answer == {"role": "tool", "content": "rain", "tool_call_id": "c1", "name": "f"}
    assert Message("assistant", "4", reasoning="").as_dict()["reasoning_content"] == ""


def test_conversations_pairs_and_ratings_can_stand_in_a_set_whatever_their_tools_hold() -> None:
    call = Message("assistant", tool_calls=({"function": {"name": "f"}},))
    asked, tools = (Message("user", "?"),), ({"name": "f"},)
    values = {Conversation("r", (call,), tools), Preference("r", asked, (call,), asked, tools)}
    values |= {Rated("r", (call,), True, tools), Rated("r", (call,), False, tools)}
    assert len(values) == 4
    assert pickle.loads(pickle.dumps(values)) == values
