"""Reads a stream's events: one that differs from an event before it in one text alone is not parsed anew. Pure.

Between the bytes around that text only one JSON string fits, so the rest of the object is the same.
"""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec

from penstock.domain.serving.request import Api
from penstock.gateway.answers import sse
from penstock.gateway.safety import texts
from penstock.gateway.safety.texts import EventTexts, Key

_STRING = re.compile(rb':("(?:[^"\\]|\\.)*")')
_PROBE, _PROBE_JSON = "\x00probe", rb'"\u0000probe"'
_MOST = 8
"""Events of one stream from which a form is learnt: four choices that think have eight."""
_decode = msgspec.json.Decoder(str).decode


Known = tuple[Key, str, EventTexts]
"""The text of an event, to what it belongs, and what else the event says."""


class _Form(NamedTuple):
    """An event with a gap for one text: ``first`` is its index from the event's start, ``last`` from its end."""

    before: bytes
    behind: bytes
    first: int
    last: int
    key: Key
    said: EventTexts
    """Without the text."""


class Forms:
    __slots__ = ("_api", "_echoed", "_known", "_left")

    def __init__(self, api: Api, echoed: Collection[str]) -> None:
        self._api, self._echoed = api, echoed
        self._known, self._left = list[_Form](), _MOST

    def known(self, event: bytes) -> Known | None:
        for before, behind, first, last, key, said in self._known:
            if event.startswith(before) and event.endswith(behind):
                try:
                    text = _decode(event[first:last])
                except ValueError:
                    continue
                if text:
                    return key, text, said
        return None

    def read(self, event: bytes, data: bytes) -> EventTexts:
        """Raises ``ValueError`` for what is no JSON object."""
        said = texts.in_event(self._api, data, self._echoed)
        if self._left and len(said.texts) == 1 and said.texts[0][2] and not (said.ended or said.ends_text):
            self._left -= 1
            self._known += self._forms(event, said)
        return said

    def _forms(self, event: bytes, said: EventTexts) -> Iterator[_Form]:
        """Yield the form in which another text, and nothing else, is read instead of this event's."""
        ((key, text, _),) = said.texts
        probed = msgspec.structs.replace(said, texts=[(key, _PROBE, True)])
        for found in _STRING.finditer(event):
            first, last = found.span(1)
            before, behind = event[:first], event[last:]
            probe = sse.data_of(before + _PROBE_JSON + behind)
            if _decode(found[1]) == text and texts.in_event(self._api, probe, self._echoed) == probed:
                rest = msgspec.structs.replace(said, texts=[])
                yield _Form(before, behind, first, last - len(event), key, rest)
