"""A stored conversation as a prompt."""

import msgspec
import pytest

from penstock.domain.errors import InvalidField
from penstock.domain.serving.request import Api, Sealed
from penstock.gateway.deferred import turns
from penstock.gateway.deferred.turns import Item
from penstock.gateway.openai.parse import parse

CALL: Item = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "add",
    "arguments": "{}",
    "status": "completed",
}
SAID: Item = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "incomplete",
    "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": None}],
}
THOUGHT: Item = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "hm"}],
}


def answer(*items: Item) -> bytes:
    return msgspec.json.encode({"id": "resp_1", "status": "completed", "output": items})


def replayed(*items: Item) -> list[Item]:
    return msgspec.json.decode(turns.replayed(answer(*items)), type=list[Item])


@pytest.mark.parametrize("given", ["Hello", Sealed(b'"Hello"', items=1, is_text=True)])
def test_a_text_is_one_message_of_the_user(given: object) -> None:
    """A context is a list of items, also of a large input that was left as JSON."""
    items = msgspec.json.decode(turns.context_of({"input": given}))
    assert items == [{"type": "message", "role": "user", "content": "Hello"}]


def test_a_list_stays_as_it_is() -> None:
    """Items are kept as their caller sent them."""
    assert msgspec.json.decode(turns.context_of({"input": [CALL]})) == [CALL]


def test_an_output_is_replayed_as_input() -> None:
    """A message keeps its text and is complete: one that broke off would be continued instead of answered."""
    (message,) = replayed(SAID)
    assert message == {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
    }


def test_a_message_without_text_is_left_out() -> None:
    """Engines read the first part of each message."""
    assert replayed({**SAID, "content": []}) == []


def test_reasoning_stays_with_its_calls() -> None:
    """A model that goes on after its tool's result sees why it called the tool; a finished answer stands alone."""
    assert [item["type"] for item in replayed(THOUGHT, CALL)] == ["reasoning", "function_call"]
    assert [item["type"] for item in replayed(THOUGHT, SAID)] == ["message"]


def test_turns_are_joined_in_order() -> None:
    """Empty lists leave no comma behind."""
    whole = turns.joined(b'[{"n":1}, {"n":2}]', b"[]", b' [ {"n":3} ] ')
    assert [item["n"] for item in msgspec.json.decode(whole)] == [1, 2, 3]
    assert turns.count(whole) == 3
    assert turns.joined(b"[]", b"[ ]") == b"[]"


def test_a_joined_conversation_is_a_request_like_any_other() -> None:
    """The API's own parser takes it: a tool's result finds the stored call that it answers."""
    result = [{"type": "function_call_output", "call_id": "c1", "output": "4"}]
    whole = turns.joined(
        turns.context_of({"input": "2 + 2?"}), turns.replayed(answer(THOUGHT, CALL)), msgspec.json.encode(result)
    )
    body = b'{"model": "m", "input": ' + whole + b"}"
    assert parse(Api.RESPONSES, body).told == ()
    alone = msgspec.json.encode({"model": "m", "input": result})
    with pytest.raises(InvalidField) as refused:
        parse(Api.RESPONSES, alone)
    assert refused.value.param == "input[0].call_id"
    continued = msgspec.json.encode({"model": "m", "input": result, "previous_response_id": "resp_1"})
    assert parse(Api.RESPONSES, continued).body["previous_response_id"] == "resp_1"


CONTEXT = msgspec.json.encode([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, CALL])


def test_listed_items_have_ids_and_parts() -> None:
    """An item without an id gets the same one at each gateway; content is a list of parts."""
    asked, said, called = turns.listed(CONTEXT)
    assert (asked["id"], asked["content"]) == ("msg_000000", [{"type": "input_text", "text": "a"}])
    assert said["content"] == [{"type": "output_text", "text": "b", "annotations": []}]
    assert called["id"] == "fc_1"


def test_pages_of_items() -> None:
    """The newest come first unless asked otherwise, and ``after`` takes any item's id."""
    items = turns.listed(CONTEXT)
    newest, has_more = turns.paged(items, turns.asked({"limit": "2"}))
    assert ([item["id"] for item in newest], has_more) == (["fc_1", "msg_000001"], True)
    rest, has_more = turns.paged(items, turns.asked({"after": "msg_000001"}))
    assert ([item["id"] for item in rest], has_more) == (["msg_000000"], False)
    oldest, _ = turns.paged(items, turns.asked({"order": "asc", "limit": "1"}))
    assert [item["id"] for item in oldest] == ["msg_000000"]
    with pytest.raises(InvalidField) as refused:
        turns.paged(items, turns.asked({"after": "msg_none"}))
    assert refused.value.param == "after"
