"""What of an answer can be held against another one as it stands: JSON in one order, and labels. Pure.

Texts can't: two good answers hardly ever have the same words.
"""

from math import isfinite

import msgspec

MOST_BYTES = 64 << 10
"""A longer answer is not read: no stream would go on meanwhile. Of numbers alone this takes some milliseconds."""
NO_JSON = b""
_PRECISE = 16
"""A number of more digits is compared as it is written."""


class _Item(msgspec.Struct, gc=False):
    label: str | None


class _Labels(msgspec.Struct, gc=False):
    data: list[_Item]


def _number(written: str) -> int | float | str:
    """Return what stands for a number: 1.0 is 1. The library's own reading of one takes up to ten microseconds."""
    if len(written) > _PRECISE:
        return written
    value = float(written)
    if value.is_integer() and abs(value) < _WHOLE:
        return int(value)
    return value if isfinite(value) else written


_WHOLE = 2.0**53
_LABELS = msgspec.json.Decoder(_Labels)
_VALUE = msgspec.json.Decoder(float_hook=_number)


def of_json(said: str) -> bytes | None:
    """Return JSON in one order and spacing: equal where the values are; ``NO_JSON`` for other text, None if unread."""
    try:
        return msgspec.json.encode(_VALUE.decode(said), order="sorted")
    except msgspec.MsgspecError:
        return NO_JSON
    except RecursionError:  # deeper than we read
        return None


def of_labels(body: bytes) -> bytes | None:
    """Return the label of each text that was classified; None where the answer does not say."""
    if len(body) > MOST_BYTES:
        return None
    try:
        labels = [item.label for item in _LABELS.decode(body).data]
    except (msgspec.MsgspecError, ValueError):
        return None
    return None if None in labels else msgspec.json.encode(labels)
