"""Numbers that are none are found in each format that weights come in."""

import math
import struct

import pytest

from penstock.formats.finite import first_too_large, largest

LARGEST = {"F32": struct.pack("<I", 0x7F7FFFFF), "BF16": b"\x7f\x7f", "F16": b"\xff\x7b"}
NONE = {"F32": struct.pack("<f", math.nan), "BF16": b"\xc0\x7f", "F16": b"\x00\x7e"}
INFINITE = {"F32": struct.pack("<f", -math.inf), "BF16": b"\x80\xff", "F16": b"\x00\xfc"}


@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16"])
def test_what_is_no_number_is_found(dtype: str) -> None:
    """One NaN or infinity among many numbers is seen; the largest numbers there are are numbers."""
    zeros = bytes(len(LARGEST[dtype]) * 100)
    assert first_too_large([zeros, LARGEST[dtype] + zeros], dtype, math.inf) is None
    assert first_too_large([zeros, NONE[dtype] + zeros], dtype, math.inf) == 100
    assert first_too_large([zeros + INFINITE[dtype] + zeros], dtype, math.inf) == 100


@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16"])
def test_the_largest_is_none_where_one_is_none(dtype: str) -> None:
    """NaN is larger than everything here, and infinity than every number."""
    zeros = bytes(len(LARGEST[dtype]) * 100)
    assert math.isnan(largest([zeros + NONE[dtype], LARGEST[dtype] + INFINITE[dtype]], dtype))
    assert largest([LARGEST[dtype], zeros + INFINITE[dtype] + zeros], dtype) == math.inf
    assert largest([zeros], dtype) == 0.0
