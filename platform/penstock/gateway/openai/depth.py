"""Bounds the depth of JSON, since later stages process values by recursion. Pure."""

from collections.abc import Iterable

import msgspec

MAX_DEPTH = 64

_CONTAINERS = (dict, list)
_DECODER = msgspec.json.Decoder()


def is_too_deep(value: object, brackets: int) -> bool:
    """``brackets`` is an upper bound of the depth."""
    return brackets > MAX_DEPTH and _deeper_than(value, MAX_DEPTH)


def is_too_deep_text(text: str) -> bool:
    """Text other than JSON has no depth."""
    brackets = text.count("{") + text.count("[")
    if brackets <= MAX_DEPTH:
        return False
    try:
        return _deeper_than(_DECODER.decode(text), MAX_DEPTH)
    except RecursionError:
        return True
    except (msgspec.DecodeError, ValueError):
        return False


def _deeper_than(value: object, levels: int) -> bool:
    layer: list[object] = [value]
    for _ in range(levels):
        layer = [child for container in layer for child in _children(container) if type(child) in _CONTAINERS]
        if not layer:
            return False
    return True


def _children(container: object) -> Iterable[object]:
    if isinstance(container, dict):
        return container.values()
    return container if isinstance(container, list) else ()
