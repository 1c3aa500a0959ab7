"""What of an answer can be held against another one as it stands: JSON in one order, and labels. Pure.

Texts can't: two good answers hardly ever have the same words.
"""

import msgspec

MOST_BYTES = 256 << 10
"""A longer answer is not read: no stream would go on meanwhile. This takes half a millisecond."""
NO_JSON = b""


class _Item(msgspec.Struct, gc=False):
    label: str | None


class _Labels(msgspec.Struct, gc=False):
    data: list[_Item]


_LABELS = msgspec.json.Decoder(_Labels)


def of_json(said: str) -> bytes | None:
    """Return JSON in one order and spacing: equal where the values are; ``NO_JSON`` for other text, None if unread."""
    try:
        return msgspec.json.encode(msgspec.json.decode(said), order="sorted")
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
