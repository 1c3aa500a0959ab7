"""Finds NaN, infinite and oversized values in stored tensors. Pure.

One NaN in an adapter spoils the answers of every request in the engine's batch, so each value is checked.

Trade-off: the interpreter's arithmetic takes seconds for a gigabyte, but needs no numeric library in a light process.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache

BYTES = {"F32": 4, "F16": 2, "BF16": 2}
"""The checked types, with their sizes."""
_INFINITY = {"F32": 0x7F800000, "F16": 0x7C00, "BF16": 0x7F80}
_FEW_LANES = 64
LARGEST = {"float32": 3.4028234663852886e38, "bfloat16": 3.3895313892515355e38, "float16": 65504.0}
"""The largest number of each precision that an engine computes in."""


def first_too_large(pieces: Iterable[bytes], dtype: str, limit: float) -> int | None:
    """Return the index of the first value that is NaN, infinite or beyond the limit; None if none is.

    Each piece holds whole values.
    """
    before = 0
    for piece in pieces:
        width, bits = BYTES[dtype], _bits_of(dtype, limit)
        lanes = len(piece) // width
        at = _first(piece, lanes, width, bits) if lanes else None
        if at is not None:
            return before + at
        before += lanes
    return None


def largest(pieces: Iterable[bytes], dtype: str) -> float:
    """Return the largest magnitude; NaN or infinity if any value is, 0 for no values.

    Each piece holds whole values; pieces are folded lane by lane, then the result by halves.
    """
    width = BYTES[dtype]
    most = lanes = 0
    for piece in pieces:
        lanes = max(lanes, len(piece) // width)
        magnitudes, _, signs = _masks(lanes, width, 0)
        most = _larger(int.from_bytes(piece, "little") & magnitudes, most, signs, width)
    _, _, signs = _masks(lanes, width, 0)
    while lanes > _FEW_LANES:
        lanes = (lanes + 1) // 2
        half = (1 << (8 * width * lanes)) - 1
        signs &= half
        most = _larger(most >> (8 * width * lanes), most & half, signs, width)
    found = struct.unpack(f"<{lanes}{'I' if width == BYTES['F32'] else 'H'}", most.to_bytes(width * lanes, "little"))
    return _number(max(found, default=0), dtype)


def _larger(one: int, other: int, signs: int, width: int) -> int:
    at_least = ((one | signs) - other) & signs
    return other ^ ((one ^ other) & (at_least - (at_least >> (8 * width - 1))))


def _number(bits: int, dtype: str) -> float:
    if dtype == "F16":
        half: float = struct.unpack("<e", struct.pack("<H", bits))[0]
        return half
    single: float = struct.unpack("<f", struct.pack("<I", bits << 16 if dtype == "BF16" else bits))[0]
    return single


def _first(piece: bytes, lanes: int, width: int, bits: int) -> int | None:
    magnitudes, missing, signs = _masks(lanes, width, bits)
    reached = ((int.from_bytes(piece, "little") & magnitudes) + missing) & signs
    return (reached & -reached).bit_length() // (8 * width) - 1 if reached else None


@lru_cache(maxsize=8)
def _masks(lanes: int, width: int, bits: int) -> tuple[int, int, int]:
    """Return three masks per lane: all bits but the sign, the distance from limit to sign bit, the sign bit."""
    sign = 1 << (8 * width - 1)
    repeated = (
        int.from_bytes(value.to_bytes(width, "little") * lanes, "little") for value in (sign - 1, sign - bits, sign)
    )
    magnitudes, missing, signs = repeated
    return magnitudes, missing, signs


@lru_cache(maxsize=8)
def _bits_of(dtype: str, limit: float) -> int:
    """Return the bits of the smallest magnitude of this type beyond the limit."""
    most = min(limit, LARGEST["float32"])
    single: int = struct.unpack("<I", struct.pack("<f", most))[0]
    if struct.unpack("<f", struct.pack("<I", single))[0] > most:
        single -= 1
    if dtype == "F32":
        return min(single + 1, _INFINITY[dtype])
    if dtype == "BF16":
        return min((single >> 16) + 1, _INFINITY[dtype])
    half: int = struct.unpack("<H", struct.pack("<e", min(most, LARGEST["float16"])))[0]
    if struct.unpack("<e", struct.pack("<H", half))[0] > most:
        half -= 1
    return min(half + 1, _INFINITY[dtype])
