"""Texts in tensors of the datatype ``BYTES``, as workers take and give them: JSON, then each tensor's bytes. Pure."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from penstock.domain.models.tensors import BINARY_SIZE, Datatype

_SCANNED_BYTES = 1 << 20
"""Bytes to scan: the JSON before the tensors is much shorter."""
_LENGTH_BYTES = 4
_HIDDEN = b"*"


def texts(data: bytes) -> Iterator[str]:
    """Raises ``ValueError`` for what is in another form."""
    for start, end in _elements(data):
        yield _text(data[start:end])


def edited(data: bytes, show: Callable[[str], str]) -> bytes:
    """Return the same tensors with texts of as many characters, each changed one a ``*`` for each of its bytes."""
    pieces, last = list[bytes](), 0
    for start, end in _elements(data):
        text = _text(data[start:end])
        shown = show(text)
        if shown != text:
            pieces += [data[last:start], _covered(text, shown)]
            last = end
    return b"".join([*pieces, data[last:]]) if pieces else data


def _elements(data: bytes) -> Iterator[tuple[int, int]]:
    head, at = json.JSONDecoder().raw_decode(str(data[:_SCANNED_BYTES], "latin-1"))
    for tensor in _tensors(head):
        size = tensor["parameters"][BINARY_SIZE]
        end = at + size
        if end > len(data):
            raise ValueError("a tensor is cut off")
        while tensor["datatype"] == Datatype.BYTES and at < end:
            start = at + _LENGTH_BYTES
            at = start + int.from_bytes(data[at:start], "little")
            if at > end:
                raise ValueError("an element is cut off")
            yield start, at
        at = end


def _tensors(head: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - any JSON
    try:
        for tensor in head["inputs" if "inputs" in head else "outputs"]:
            if not isinstance(tensor["parameters"][BINARY_SIZE], int) or not isinstance(tensor["datatype"], str):
                raise KeyError(BINARY_SIZE)
            yield tensor
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("no description of tensors") from error


def _text(element: bytes) -> str:
    return element.decode("utf-8", "surrogateescape")


def _covered(text: str, shown: str) -> bytes:
    parts = [one.encode("utf-8", "surrogateescape") for one in text]
    changed = [was != now for was, now in zip(text, shown, strict=True)]
    return b"".join(_HIDDEN * len(part) if hides else part for part, hides in zip(parts, changed, strict=True))
