"""Turns an answer into a form that can be compared with another answer: sorted JSON, or labels. Pure.

Free texts have no such form. Requests for JSON count only if no other field (a stop word, a forbidden token) can change
the answer's end.

Trade-off: unknown formats, long answers and several choices give no evidence.
"""

from functools import partial
from math import isfinite

import msgspec

from penstock.domain.serving.request import Api, InferenceRequest
from penstock.gateway.answers import content, sse
from penstock.gateway.calls.wishes import BOUNDS, FORMS, leaves_end
from penstock.gateway.streaming.continuity import Take

_FORMATS = ("json_object", "json_schema")
MOST_BYTES = 64 << 10
"""Bytes above which an answer is not read, since that would delay all streams. An answer of numbers takes some
milliseconds.
"""
NO_JSON = b""
_PRECISE = 16
"""Digits above which a number is compared as text."""


def _number(written: str) -> int | float | str:
    """1.0 as 1; a long or infinite one as written. msgspec's own reading takes up to 10 µs."""
    if len(written) > _PRECISE:
        return written
    value = float(written)
    if value.is_integer() and abs(value) < _WHOLE:
        return int(value)
    return value if isfinite(value) else written


_WHOLE = 2.0**53
_VALUE = msgspec.json.Decoder(float_hook=_number)


def is_asked(request: InferenceRequest) -> bool:
    body = request.body
    form, own = body.get("response_format"), body.get("structured_outputs")
    if form is None and own is None:
        return False
    is_json = isinstance(form, dict) and form.get("type") in _FORMATS
    is_json |= isinstance(own, dict) and (own.get("json") is not None or own.get("json_object") is True)
    return is_json and request.api in (Api.CHAT, Api.COMPLETIONS) and leaves_end(body, BOUNDS | FORMS)


class KeptEvents:
    __slots__ = ("_bytes", "_events")

    def __init__(self) -> None:
        self._events: list[bytes] = []
        self._bytes = 0

    def over(self, plain: Take) -> Take:
        self._events, self._bytes = [], 0
        return partial(self._take, plain)

    def _take(self, plain: Take, events: bytes) -> tuple[int, bytes]:
        self._bytes += len(events)
        if self._bytes <= MOST_BYTES:
            self._events.append(events)
        return plain(events)

    def is_json(self) -> bool | None:
        return _is_json(self.form())

    def form(self) -> bytes | None:
        if not self._events or self._bytes > MOST_BYTES:
            return None
        try:
            choices = content.first_of_each(sse.choices_in(b"".join(self._events)))
        except ValueError:
            return None
        return of_json("".join([choice.said or "" for choice in choices]))


def whole(body: bytes) -> bool | None:
    return _is_json(form(body))


def form(body: bytes) -> bytes | None:
    """Return None if the answer is too large or has no single text."""
    if len(body) > MOST_BYTES:
        return None
    try:
        said = content.only(body).said
    except ValueError:
        return None
    return None if said is None else of_json(said)


def _is_json(form: bytes | None) -> bool | None:
    return None if form is None else form != NO_JSON


def of_json(said: str) -> bytes | None:
    """Equal for equal values; ``NO_JSON`` for other text, None if nested too deep."""
    try:
        return msgspec.json.encode(_VALUE.decode(said), order="sorted")
    except msgspec.MsgspecError:
        return NO_JSON
    except RecursionError:  # deeper than we read
        return None


def of_labels(body: bytes) -> bytes | None:
    if len(body) > MOST_BYTES:
        return None
    try:
        labels = content.labels(body)
    except ValueError:
        return None
    return None if None in labels else msgspec.json.encode(labels)
