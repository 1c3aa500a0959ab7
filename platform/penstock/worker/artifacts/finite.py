"""Whether weights are numbers: one that is none (NaN, infinite) ends up in the KV cache and in others' answers.

In the formats that weights come in such a number has all bits of its exponent set, so it is told by its upper bytes
alone. Whole files are looked through at about a gigabyte a second, without a library. Pure but for reading.
"""

import json
from pathlib import Path

_HIGH_OF_32 = (0x7F, 0xFF)
_HIGH_OF_16 = tuple(high for high in range(256) if high & 0x7C == 0x7C)  # noqa: PLR2004  five bits of an F16's exponent
_MOST_HEADER_BYTES = 64 << 20
_SIZES = {"F32": 4, "BF16": 2, "F16": 2}


def first_not_finite(path: Path) -> str:
    """Return the first tensor of a safetensors file with a number that is none; empty where all are numbers."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(length, _MOST_HEADER_BYTES)))
        for name, about in header.items():
            if name == "__metadata__" or about["dtype"] not in _SIZES:
                continue
            start, end = about["data_offsets"]
            file.seek(8 + length + start)
            if not is_finite(file.read(end - start), about["dtype"]):
                return str(name)
    return ""


def is_finite(raw: bytes, dtype: str) -> bool:
    """Tell whether these numbers, little-endian, are all numbers."""
    size = _SIZES[dtype]
    high = raw[size - 1 :: size]
    if dtype == "F16":
        return not any(one in high for one in _HIGH_OF_16)
    if not any(one in high for one in _HIGH_OF_32):
        return True
    low = raw[size - 2 :: size]
    return not any(h in _HIGH_OF_32 and one & 0x80 for h, one in zip(high, low, strict=True))  # its last bit is there
