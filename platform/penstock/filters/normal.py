"""The copy of a text that is judged: NFKC, without zero-width characters, as UTF-8; each byte knows its character.

Each character is normalised alone, so a text cut into events gives the same bytes. Look-alikes of other scripts stay.
"""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_VARIATIONS = range(0xFE00, 0xFE10)


@lru_cache(maxsize=8_192)
def _of(character: str) -> bytes:
    if unicodedata.category(character) in ("Cf", "Cs") or ord(character) in _VARIATIONS:
        return b""
    return unicodedata.normalize("NFKC", character).encode()


def normal(text: str) -> tuple[bytes, Sequence[int]]:
    """Return the judged bytes, and for each the index of its character in ``text``."""
    if text.isascii():
        return text.encode(), range(len(text))
    judged, owners = bytearray(), list[int]()
    for at, character in enumerate(text):
        piece = _of(character)
        judged += piece
        owners += [at] * len(piece)
    return bytes(judged), owners
