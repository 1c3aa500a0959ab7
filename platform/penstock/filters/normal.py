"""The copy of a text that is judged: NFKC, without zero-width characters, as UTF-8; each byte knows its character.

Each character is normalised alone, so a text cut into events gives the same bytes. Look-alikes of other scripts stay.
"""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_VARIATIONS = range(0xFE00, 0xFE10)
_FOLD = bytes(range(256)).lower().translate(bytes.maketrans(b"\t\r\n", b"   "))
"""Lower case of ASCII, and white space as a blank."""


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


def folded(judged: bytes) -> bytes:
    """Return as many bytes without case, each white space as a blank: phrases are compared in it."""
    if judged.isascii():
        return judged.translate(_FOLD)
    return "".join(map(fold, judged.decode())).encode().translate(_FOLD)


@lru_cache(maxsize=8_192)
def fold(character: str) -> str:
    """Return the lower case if it is as long in UTF-8."""
    lower = character.lower()
    return lower if len(lower.encode()) == len(character.encode()) else character
