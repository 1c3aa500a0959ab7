"""Rotation of an image by its EXIF orientation tag, the only tag that is read. Pure."""

import struct

from PIL.Image import Transpose

MAX_TAGS = 256
"""Tags stand in order, and this one is among the first."""
_ORIENTATION = 0x0112
_KINDS = {1: "B", 3: "H", 4: "I"}
_TURNS = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}


def turn(exif: bytes) -> Transpose | None:
    tiff = exif.removeprefix(b"Exif\0\0")
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    try:
        return _TURNS.get(_orientation(tiff, order)) if order else None
    except struct.error:
        return None


def _orientation(tiff: bytes, order: str) -> int:
    (begin,) = struct.unpack_from(f"{order}I", tiff, 4)
    (tags,) = struct.unpack_from(f"{order}H", tiff, begin)
    for at in range(begin + 2, begin + 2 + 12 * min(tags, MAX_TAGS), 12):
        tag, kind = struct.unpack_from(f"{order}HH", tiff, at)
        if tag == _ORIENTATION:
            (value,) = struct.unpack_from(order + _KINDS.get(kind, "H"), tiff, at + 8)
            return int(value)
    return 1
