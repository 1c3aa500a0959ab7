"""Events of a background response: numbered over all of its attempts, each with the response's own id. Pure.

An attempt that broke off leaves open output items. The next attempt closes them as incomplete and counts its own items
on from there, so that a client that follows both sees one valid stream: SDKs refuse an output index that comes twice.
"""

from collections.abc import Iterator, Mapping

import msgspec

from penstock.domain.jobs.stored_response import Begun
from penstock.gateway.answers.sse import EventScanner, data_of, split

Event = dict[str, object]

_ADDED, _DONE = "response.output_item.added", "response.output_item.done"
_ENDS = frozenset({"response.completed", "response.incomplete"})
_UNKEPT = frozenset({"response.created", "response.failed", "error"})
"""Told before, or no end of the response but of this attempt."""
_DELTA = ".delta"
COMMENT, _PLATFORMS = b":", b": penstock "
_IDENTITY = ("type", "id", "call_id", "role")
_EMPTY: dict[str, Event] = {
    "message": {"content": []},
    "function_call": {"name": "", "arguments": ""},
    "custom_tool_call": {"name": "", "input": ""},
    "reasoning": {"summary": []},
}
_JSON = msgspec.json.Decoder(Event)


def encoded(event: Mapping[str, object], number: int) -> bytes:
    data = msgspec.json.encode({**event, "sequence_number": number})
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), data)


class AttemptEvents:
    """The end stays here for the job's own end; ``own`` are fields that an engine does not know."""

    def __init__(self, own: Mapping[str, object], begun: Begun) -> None:
        self._own, self._begun = own, begun
        self._scanner = EventScanner()
        self._closes = sorted(begun.open.items())
        self.number, self.items, self.open = begun.number, begun.items, dict[int, Mapping[str, object]](begun.open)
        self.deltas = 0
        """Pieces of text so far: an engine makes each of a token or more."""
        self.final: Event | None = None
        self.platforms: Event | None = None
        """The platform's own field of the answer, which a stream has as a comment."""

    def feed(self, data: bytes) -> list[bytes]:
        return [self._numbered(event) for event in self._events(self._scanner.feed(data))]

    def _events(self, data: bytes) -> Iterator[Event]:
        for raw in split(data):
            if raw.startswith(COMMENT):
                if raw.startswith(_PLATFORMS):
                    self.platforms = _JSON.decode(raw.removeprefix(_PLATFORMS))
                continue
            event = _JSON.decode(data_of(raw))
            kind = event.get("type")
            if isinstance(event.get("response"), dict):
                event["response"] = {**_dict(event["response"]), **self._own}
            if kind in _ENDS:
                self.final = _dict(event["response"])
            elif kind not in _UNKEPT:
                yield from self._closed()
                self.deltas += str(kind).endswith(_DELTA)
                yield self._shifted(event)

    def _closed(self) -> Iterator[Event]:
        for index, item in self._closes:
            yield {"type": _DONE, "output_index": index, "item": item}
            del self.open[index]
        self._closes = []

    def _shifted(self, event: Event) -> Event:
        index = event.get("output_index")
        if not isinstance(index, int):
            return event
        index += self._begun.items
        event["output_index"] = index
        if event["type"] == _ADDED:
            self.items = max(self.items, index + 1)
            self.open[index] = _stub(_dict(event.get("item")))
        elif event["type"] == _DONE:
            self.open.pop(index, None)
        return event

    def _numbered(self, event: Event) -> bytes:
        number, self.number = self.number, self.number + 1
        return encoded(event, number)


def _stub(item: Event) -> Event:
    """An item's identity without text, kept in a row so that a later attempt can close it."""
    kind = str(item.get("type"))
    shown = {name: item[name] for name in _IDENTITY if item.get(name) is not None}
    return {**shown, **_EMPTY.get(kind, {}), "status": "incomplete"}


def _dict(value: object) -> Event:
    return value if isinstance(value, dict) else {}


def after(events: bytes, number: int) -> bytes:
    """Return the events with a greater number."""
    return b"".join(raw for raw in split(events) if _number(raw) > number)


def _number(raw: bytes) -> int:
    number = _JSON.decode(data_of(raw)).get("sequence_number")
    return number if isinstance(number, int) else -1
