"""Whether an answer is the JSON that its caller asked for: a version that breaks it breaks programs. Pure.

An engine that is asked for JSON makes it by a grammar, whatever the prompt says. Other fields can break it all the same
(a stop word, a forbidden token), so only requests count that leave the end to the model, bound and form aside.
Trade-off: what is unknown here, long, or of several choices says nothing.
"""

from functools import partial

import msgspec

from penstock.domain.serving.request import Api, InferenceRequest
from penstock.gateway.calls.wishes import BOUNDS, FORMS, leaves_end
from penstock.gateway.streaming import forms, sse
from penstock.gateway.streaming.continuity import Take
from penstock.gateway.streaming.forms import MOST_BYTES
from penstock.gateway.streaming.transcript import CHOICE, DATA, EVENTS

_FORMATS = ("json_object", "json_schema")


class _Message(msgspec.Struct, gc=False):
    content: str | None = None


class _Choice(msgspec.Struct, gc=False):
    message: _Message | None = None
    text: str | None = None


class _Body(msgspec.Struct, gc=False):
    choices: list[_Choice]


_BODY = msgspec.json.Decoder(_Body)


def is_asked(request: InferenceRequest) -> bool:
    """Tell whether the answer is to be JSON, and nothing that its caller says can make it another thing."""
    body = request.body
    form, own = body.get("response_format"), body.get("structured_outputs")
    if form is None and own is None:
        return False
    is_json = isinstance(form, dict) and form.get("type") in _FORMATS
    is_json |= isinstance(own, dict) and (own.get("json") is not None or own.get("json_object") is True)
    return is_json and request.api in (Api.CHAT, Api.COMPLETIONS) and leaves_end(body, BOUNDS | FORMS)


class Kept:
    """A stream's events, for as long as they are few."""

    __slots__ = ("_bytes", "_events")

    def __init__(self) -> None:
        self._events: list[bytes] = []
        self._bytes = 0

    def over(self, plain: Take) -> Take:
        """Return what keeps the events of an attempt beside what ``plain`` does; those before it are forgotten."""
        self._events, self._bytes = [], 0
        return partial(self._take, plain)

    def _take(self, plain: Take, events: bytes) -> tuple[int, bytes]:
        self._bytes += len(events)
        if self._bytes <= MOST_BYTES:
            self._events.append(events)
        return plain(events)

    def is_json(self) -> bool | None:
        """Tell whether what the stream said is JSON; None where nobody can know."""
        return _is_json(self.form())

    def form(self) -> bytes | None:
        """Return what the stream said as JSON in one order (``forms``); None where nobody can know."""
        if not self._events or self._bytes > MOST_BYTES:
            return None
        lines = [one.removeprefix(DATA) for one in b"".join(self._events).split(sse.END) if CHOICE in one]
        try:
            choices = [event.choices[0] for event in EVENTS.decode_lines(b"\n".join(lines))]
        except msgspec.MsgspecError:
            return None
        said = [(one.delta.content if one.delta is not None else one.text) or "" for one in choices]
        return forms.of_json("".join(said))


def whole(body: bytes) -> bool | None:
    """Tell whether what an answer in one piece said is JSON; None where nobody can know."""
    return _is_json(form(body))


def form(body: bytes) -> bytes | None:
    """Return what an answer in one piece said as JSON in one order (``forms``); None where nobody can know."""
    if len(body) > MOST_BYTES:
        return None
    try:
        (choice,) = _BODY.decode(body).choices
    except (msgspec.MsgspecError, ValueError):
        return None
    said = choice.message.content if choice.message is not None else choice.text
    return None if said is None else forms.of_json(said)


def _is_json(form: bytes | None) -> bool | None:
    return None if form is None else form != forms.NO_JSON
