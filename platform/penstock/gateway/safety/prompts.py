"""The texts of a request that a policy judges. Pure."""

from collections.abc import Iterator, Mapping

import msgspec

from penstock.domain.errors import UnsupportedField
from penstock.domain.serving.request import InferenceRequest, Sealed

_FIELDS = ("messages", "prompt", "input", "system", "instructions", "tools", "suffix", "inputs")
_DATA_URL = "data:"
"""Pictures and sounds are no text."""


def texts(request: InferenceRequest) -> Iterator[str]:
    """Yield each text; raises ``UnsupportedField`` for a prompt of token ids, which no rule can read."""
    for name in _FIELDS:
        value = request.body.get(name)
        if isinstance(value, Sealed):
            value = msgspec.json.decode(value.json)
        if name in ("prompt", "input") and _has_ids(value):
            raise UnsupportedField("a safety policy holds for this request: send text, not token ids", param=name)
        yield from _strings(value)


def _has_ids(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    first = value[0]
    return type(first) is int or (isinstance(first, list) and bool(first) and type(first[0]) is int)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if not value.startswith(_DATA_URL):
            yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
