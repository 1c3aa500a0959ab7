"""Events of background responses: numbers, ids and items over attempts."""

from collections.abc import Iterable, Mapping

import msgspec
import pytest

from penstock.domain.jobs.stored_response import Begun
from penstock.gateway.answers.sse import data_of, split
from penstock.gateway.deferred import response_events
from penstock.gateway.deferred.response_events import AttemptEvents

OWN = {"id": "resp_own", "background": True}
MESSAGE = {"type": "message", "id": "msg_a", "role": "assistant", "status": "in_progress", "content": []}
Event = dict[str, object]


def sent(*events: Mapping[str, object]) -> bytes:
    return b"".join(response_events.encoded(dict(event), number) for number, event in enumerate(events))


def read(events: Iterable[bytes]) -> list[Event]:
    return [msgspec.json.decode(data_of(raw)) for raw in split(b"".join(events))]


def of_engine(status: str = "in_progress") -> Event:
    return {"id": "resp_engine", "status": status, "output": []}


BEGIN: list[Event] = [
    {"type": "response.created", "response": of_engine()},
    {"type": "response.in_progress", "response": of_engine()},
    {"type": "response.output_item.added", "output_index": 0, "item": MESSAGE},
    {"type": "response.output_text.delta", "output_index": 0, "item_id": "msg_a", "delta": "Hi"},
]
END: list[Event] = [
    {"type": "response.output_item.done", "output_index": 0, "item": {**MESSAGE, "status": "completed"}},
    {"type": "response.completed", "response": of_engine("completed")},
]


def test_events_are_numbered_after_the_queue() -> None:
    """The first two events tell that the response was made and waits; the engine's own first one is left out."""
    reader = AttemptEvents(OWN, Begun())
    events = read(reader.feed(sent(*BEGIN)))
    assert [event["sequence_number"] for event in events] == [2, 3, 4]
    assert events[0]["response"] == {**of_engine(), **OWN}


def test_the_end_is_kept_apart() -> None:
    """The last event is the job's: an attempt that is not delivered must not tell it."""
    reader = AttemptEvents(OWN, Begun())
    events = read(reader.feed(sent(*BEGIN) + b': penstock {"version":"v"}\n\n' + sent(*END)))
    assert events[-1]["type"] == "response.output_item.done"
    assert reader.final == {**of_engine("completed"), **OWN}
    assert reader.platforms == {"version": "v"}
    assert reader.open == {}


@pytest.mark.parametrize("cut", range(1, 400, 7))
def test_bytes_may_be_cut_anywhere(cut: int) -> None:
    """Events are the same however their bytes arrive."""
    whole = sent(*BEGIN, *END)
    once, twice = AttemptEvents(OWN, Begun()), AttemptEvents(OWN, Begun())
    assert once.feed(whole) == twice.feed(whole[:cut]) + twice.feed(whole[cut:])
    assert once.final == twice.final


def test_an_attempt_after_a_broken_one_closes_its_items() -> None:
    """A client that follows both sees each output index once, and no item that never ends."""
    broken = AttemptEvents(OWN, Begun())
    broken.feed(sent(*BEGIN))
    begun = Begun(number=broken.number, items=broken.items, open=broken.open)
    events = read(AttemptEvents(OWN, begun).feed(sent(*BEGIN, *END)))
    assert [event["sequence_number"] for event in events] == [5, 6, 7, 8, 9]
    closed, restarted, added = events[:3]
    assert (closed["type"], closed["output_index"]) == ("response.output_item.done", 0)
    assert closed["item"] == {**MESSAGE, "status": "incomplete"}
    assert restarted["type"] == "response.in_progress"
    assert (added["type"], added["output_index"]) == ("response.output_item.added", 1)


def test_no_text_is_in_what_a_row_keeps() -> None:
    """Items that are not done are remembered by their identity."""
    reader = AttemptEvents(OWN, Begun())
    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "secret_name", "arguments": "secret"}
    reader.feed(sent({"type": "response.output_item.added", "output_index": 0, "item": item}))
    assert b"secret" not in msgspec.json.encode(reader.open)
    assert reader.open[0]["call_id"] == "c"


def test_what_is_no_event_ends_the_attempt() -> None:
    """An engine that writes something else is not understood by guessing."""
    with pytest.raises(ValueError, match="truncated"):
        AttemptEvents(OWN, Begun()).feed(b"event: x\ndata: {\n\n")


def test_events_after_a_number() -> None:
    """A piece is cut where a client has left off."""
    whole = sent(*BEGIN)
    assert [event["sequence_number"] for event in read([response_events.after(whole, 1)])] == [2, 3]
    assert response_events.after(whole, 3) == b""
