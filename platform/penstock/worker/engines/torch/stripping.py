"""Reduces a JPEG or PNG to its pixels before the decoder sees it. Pure.

Profiles, texts, previews and extra segments cost decoder time not visible in any header, and don't change the pixels:
they are removed, and the number of remaining segments is bounded. EXIF data are returned separately, for rotation.
"""

import struct
import zlib
from dataclasses import dataclass

from penstock.domain.errors import InvalidField
from penstock.formats.pictures import JPEG, PNG

MAX_SCANS = 20
"""A progressive JPEG has about ten scans; each processes all pixels, however few bytes it has."""
MAX_SEGMENTS = 1024
"""Segments before a JPEG's first scan: a profile of the largest size has 255, previews a few dozen."""
MAX_TABLES_BYTES = 1 << 16
"""Bytes of a JPEG's frame and tables, usually about three kilobytes."""
LEAST_CHUNKS, CHUNK_BYTES = 1024, 512
"""The chunks that any PNG may have, and the bytes for each further chunk: encoders write 8 KiB at a time."""
MAX_CHUNK_BYTES = 1024
"""Bytes of a PNG's head, palette and transparency."""
_SCAN, _END = b"\xff\xda", b"\xff\xd9"
_STANDALONE = frozenset({0x00, 0x01, *range(0xD0, 0xDA)})
_NEEDED = frozenset({*range(0xC0, 0xD0), 0xDB, 0xDC, 0xDD, 0xE0, 0xEE})
"""Segments kept: frame, tables and restarts, and two that determine the colours: JFIF and Adobe."""
_APP1, _EXIF = 0xE1, b"Exif\0\0"
_CHUNK = struct.Struct(">I4s")


@dataclass(frozen=True, slots=True)
class Stripped:
    data: bytes
    exif: bytes = b""


def stripped(data: bytes, param: str) -> Stripped:
    if data.startswith(JPEG):
        return _jpeg(data, param)
    return _png(data, param) if data.startswith(PNG) else Stripped(data)


def damaged(param: str) -> InvalidField:
    return InvalidField(f"{param} is cut off or damaged and can't be decoded", param=param)


# -- JPEG ----------------------------------------------------------------------------------


def _jpeg(data: bytes, param: str) -> Stripped:
    needed, exif, at = bytearray(data[:2]), b"", 2
    for _ in range(MAX_SEGMENTS):
        at, kind, end = _segment(data, at, param)
        if data[at : at + 2] == _SCAN:
            return Stripped(bytes(needed + _scans(data, at, param)), exif)
        if kind in _NEEDED:
            needed += data[at:end]
            _check_tables(needed, param)
        elif kind == _APP1 and not exif and data.startswith(_EXIF, at + 4):
            exif = data[at + 4 : end]
        at = end
    raise InvalidField(f"{param} has more than {MAX_SEGMENTS} segments before its pixels: save it anew", param=param)


def _check_tables(needed: bytearray, param: str) -> None:
    if len(needed) > MAX_TABLES_BYTES:
        raise InvalidField(f"{param} has more tables than a JPEG has: save it anew", param=param)


def _segment(data: bytes, begin: int, param: str) -> tuple[int, int, int]:
    at = data.find(b"\xff", begin)
    if at < 0 or at + 4 > len(data):
        raise damaged(param)
    kind = data[at + 1]
    if kind == 0xFF:  # noqa: PLR2004  a fill byte
        return at, kind, at + 1
    return at, kind, at + 2 + (0 if kind in _STANDALONE else int.from_bytes(data[at + 2 : at + 4], "big"))


def _scans(data: bytes, begin: int, param: str) -> bytes:
    """The first picture's; further pictures (depth, brightness) are dropped."""
    end = data.find(_END, begin)
    end = len(data) if end < 0 else end + 2
    if data.count(_SCAN, begin, end) > MAX_SCANS:
        raise InvalidField(f"{param} has more than {MAX_SCANS} scans: save it as a baseline JPEG", param=param)
    return data[begin:end]


# -- PNG -----------------------------------------------------------------------------------


def _png(data: bytes, param: str) -> Stripped:
    chunks = _chunks(data, param)
    frames = chunks.get(b"acTL", [b""])[0]
    if int.from_bytes(frames[:4], "big") > 1:
        raise InvalidField(f"{param} is an animation: send a single frame of it", param=param)
    if len(chunks.get(b"IHDR", ())) > 1:
        raise InvalidField(f"{param} states two different sizes: it is damaged", param=param)
    needed = [(kind, chunks[kind][0]) for kind in (b"IHDR", b"PLTE", b"tRNS") if kind in chunks]
    if any(len(one) > MAX_CHUNK_BYTES for _, one in needed):
        raise damaged(param)
    whole = (*needed, (b"IDAT", b"".join(chunks.get(b"IDAT", ()))), (b"IEND", b""))
    return Stripped(PNG + b"".join(_written(kind, one) for kind, one in whole), bytes(chunks.get(b"eXIf", [b""])[0]))


def _chunks(data: bytes, param: str) -> dict[bytes, list[memoryview | bytes]]:
    view, found, at = memoryview(data), dict[bytes, list[memoryview | bytes]](), len(PNG)
    most = LEAST_CHUNKS + len(data) // CHUNK_BYTES
    for _ in range(most):
        if at + _CHUNK.size > len(data):
            return found
        length, kind = _CHUNK.unpack_from(data, at)
        at += _CHUNK.size
        if kind == b"IEND":
            return found
        if at + length > len(data):
            raise damaged(param)
        found.setdefault(kind, []).append(view[at : at + length])
        at += length + 4
    raise InvalidField(f"{param} has more than {most} chunks: save it anew", param=param)


def _written(kind: bytes, held: bytes | memoryview) -> bytes:
    return b"".join((_CHUNK.pack(len(held), kind), held, struct.pack(">I", zlib.crc32(held, zlib.crc32(kind)))))
