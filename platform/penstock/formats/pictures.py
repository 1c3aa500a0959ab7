"""Reads the size of encoded images from their headers, and their decoding cost in tokens. Pure; it decodes nothing.

Gateway and worker add the decoding cost to an item's tokens, for limits, queue and bill. So the price is never below
the true cost, and an unreadable header costs the maximum.
"""

from base64 import b64decode
from binascii import Error
from collections.abc import Callable
from dataclasses import dataclass

MAX_PIXELS = 40_000_000
"""Pixels of more than any usual camera's photograph: one to two seconds of decoding at worst."""
BYTES_PER_TOKEN = 16 << 10
"""Copied bytes, not read as text, for the work of one prompt token."""
DATA_URL = "data:image/"
_BASE64 = ";base64,"
_MAX_PREFIX = 64
_MAX_SEGMENTS = 256
"""Segments before a JPEG's frame: profiles and previews have a few dozen."""
PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
"""The first bytes of each format."""
_STANDALONE = frozenset({0x01, *range(0xD0, 0xD9)})
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE = frozenset({0xC2, 0xC6, 0xCA, 0xCE})
_PER_PLAIN, _PER_PROGRESSIVE, _PER_COMPRESSED = 4096, 2048, 1024
"""Pixels for the work of one prompt token: JPEG in one pass, in many, PNG and WebP."""

Read = Callable[[int, int], bytes]
"""Takes offset and number of bytes; returns those available."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image's size, and its pixels per token of work."""

    width: int
    height: int
    pixels_per_token: int

    @property
    def tokens(self) -> int:
        """The cost of decoding, in tokens; an oversized image is refused before decoding."""
        return -(-min(MAX_PIXELS, max(1, self.width * self.height)) // self.pixels_per_token)


UNKNOWN = Picture(MAX_PIXELS, 1, _PER_COMPRESSED)


def of_bytes(data: bytes | memoryview) -> Picture | None:
    """Return the image's size by its header: ``UNKNOWN`` if unreadable, None if the data is no image."""
    view = memoryview(data)
    return _of(lambda at, size: bytes(view[at : at + size]))


def of_url(url: str) -> Picture | None:
    """Return the size of the image in a ``data:`` URL."""
    begin = url.find(_BASE64, 0, _MAX_PREFIX) + len(_BASE64)

    def read(at: int, size: int) -> bytes:
        first, last = at // 3, -(-(at + size) // 3)
        return b64decode(url[begin + 4 * first : begin + 4 * last])[at - 3 * first :][:size]

    try:
        return _of(read) if begin >= len(_BASE64) else None
    except (Error, ValueError):
        return UNKNOWN


def tokens_of_item(given: object) -> int:
    """Return the decoding cost of an item in its encoded form: a ``data:`` URL or bytes; 0 for anything else."""
    if isinstance(given, str):
        return tokens_of(of_url(given), len(given)) if given.startswith(DATA_URL) else 0
    if not isinstance(given, bytes | memoryview):
        return 0
    found = of_bytes(given)
    return 0 if found is None else tokens_of(found, len(given))


def tokens_of(found: Picture | None, size: int) -> int:
    """Return the decoding cost, in tokens, of an element of ``size`` bytes with this header."""
    return (found.tokens if found is not None else 0) + -(-size // BYTES_PER_TOKEN)


def _of(read: Read) -> Picture | None:
    head = read(0, 30)
    if head.startswith(PNG):
        return _png(head)
    if head.startswith(JPEG):
        return _jpeg(read)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp(head)
    return None


def _png(head: bytes) -> Picture:
    if head[12:16] != b"IHDR":
        return UNKNOWN
    return Picture(int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big"), _PER_COMPRESSED)


def _jpeg(read: Read) -> Picture:
    at = 2
    for _ in range(_MAX_SEGMENTS):
        marker = read(at, 9)
        if len(marker) < 9 or marker[0] != 0xFF:  # noqa: PLR2004  a frame's head, and what begins a marker
            return UNKNOWN
        kind = marker[1]
        if kind in _FRAMES:
            rate = _PER_PROGRESSIVE if kind in _PROGRESSIVE else _PER_PLAIN
            return Picture(int.from_bytes(marker[7:9], "big"), int.from_bytes(marker[5:7], "big"), rate)
        if kind == 0xFF:  # noqa: PLR2004  a fill byte
            at += 1
        else:
            at += 2 if kind in _STANDALONE else 2 + int.from_bytes(marker[2:4], "big")
    return UNKNOWN


def _webp(head: bytes) -> Picture:
    kind, least = head[12:16], int.from_bytes(head[21:25], "little")
    if kind == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        sides = int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF
    elif kind == b"VP8L" and head[20:21] == b"\x2f":
        sides = 1 + (least & 0x3FFF), 1 + (least >> 14 & 0x3FFF)
    elif kind == b"VP8X":
        sides = 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    else:
        return UNKNOWN
    return Picture(*sides, _PER_COMPRESSED)
