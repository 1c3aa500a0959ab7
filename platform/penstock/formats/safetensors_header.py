"""Reads the header of an untrusted safetensors file: sizes first, then shapes; tensors as plain bytes.

Format: 8 bytes little-endian length, a JSON header of that length, then data that the tensors must fill exactly
(https://github.com/huggingface/safetensors, "Format"). Loaders map files by this header, so a false one is refused.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from penstock.domain.errors import ArtifactRefused
from penstock.formats.documents import DocumentRefused, json_of

MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""
MAX_DIMENSIONS = 16
_LENGTH_BYTES = 8
_MOST_BYTES = (1 << 63) - 1
_PIECE_BYTES = 1 << 20
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """One tensor in a header; ``begin`` and ``end`` are byte offsets from the start of the data."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def tensors_of(read: Callable[[int, int], bytes], size: int, name: str) -> tuple[int, dict[str, StoredTensor]]:
    """Return the offset of the data, and the tensors by name; ``read(first, count)`` returns bytes.

    Raises ``ArtifactRefused`` for a false header. ``check_safetensors`` checks that the data is complete.
    """
    path = Path(name)
    length = int.from_bytes(read(0, _LENGTH_BYTES), "little")
    if size < _LENGTH_BYTES or length > min(MAX_HEADER_BYTES, size - _LENGTH_BYTES):
        raise _refused(path, f"its header claims {length:,} bytes, the file has {size:,}")
    found: dict[str, StoredTensor] = {}
    for tensor, told in _parsed(path, read(_LENGTH_BYTES, length)).items():
        if tensor != "__metadata__":
            found[tensor] = _stored(path, tensor, told)
    return _LENGTH_BYTES + length, found


def reader_of(file: BinaryIO) -> Callable[[int, int], bytes]:
    def read(start: int, length: int) -> bytes:
        file.seek(start)
        return file.read(length)

    return read


def pieces_of(file: BinaryIO, begin: int, tensor: StoredTensor, name: str) -> Iterator[bytes]:
    """Yield a tensor's bytes, a megabyte at a time; ``begin`` is the offset of the file's data."""
    file.seek(begin + tensor.begin)
    left = tensor.end - tensor.begin
    while left:
        piece = file.read(min(_PIECE_BYTES, left))
        if not piece:
            raise ArtifactRefused(f"{name} ends before its header says so")
        left -= len(piece)
        yield piece


def check_safetensors(path: Path) -> None:
    """Raise ``ArtifactRefused``, naming the file, if the header is unsound or data is missing."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if size < _LENGTH_BYTES or length > min(MAX_HEADER_BYTES, size - _LENGTH_BYTES):
            raise _refused(path, f"its header claims {length:,} bytes, the file has {size:,}")
        header = _parsed(path, file.read(length))
    stored = (_stored(path, name, tensor) for name, tensor in header.items() if name != "__metadata__")
    spans = sorted((one.begin, one.end) for one in stored)
    end = 0
    for begin, stop in spans:
        if begin != end:
            raise _refused(path, f"its tensors leave a gap or overlap at byte {end:,}")
        end = stop
    if end != size - _LENGTH_BYTES - length:
        raise _refused(path, f"its tensors need {end:,} bytes of data, the file has {size - _LENGTH_BYTES - length:,}")


def _parsed(path: Path, raw: bytes) -> dict[str, object]:
    try:
        header = json_of(raw)
    except DocumentRefused as error:
        raise _refused(path, f"of its header, {error}") from error
    if not isinstance(header, dict):
        raise _refused(path, "its header is not a JSON object")
    notes = header.get("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(value, str) for value in notes.values()):
        raise _refused(path, "its __metadata__ is not a map of texts, and no engine could load it")
    return header


def _stored(path: Path, name: str, tensor: object) -> StoredTensor:
    """Return a tensor after checking its byte range against type and shape."""
    match tensor:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(begin), int(end)]} if dtype in _BITS:
            pass
        case _:
            raise _refused(path, f"its header describes the tensor {name[:80]!r} wrongly")
    sizes = [n for n in shape if isinstance(n, int) and not isinstance(n, bool) and n >= 0]
    if len(sizes) != len(shape) or len(shape) > MAX_DIMENSIONS or not 0 <= begin <= end <= _MOST_BYTES:
        raise _refused(path, f"its header gives the tensor {name[:80]!r} no valid shape or place")
    if (end - begin) * 8 != math.prod(sizes) * _BITS[dtype]:
        raise _refused(path, f"its header gives the tensor {name[:80]!r} more or fewer bytes than its shape needs")
    return StoredTensor(dtype=dtype, shape=tuple(sizes), begin=begin, end=end)


def _refused(path: Path, why: str) -> ArtifactRefused:
    return ArtifactRefused(
        f"{path.name} is not a sound safetensors file: {why}. Save the weights again with safetensors, then push"
    )
