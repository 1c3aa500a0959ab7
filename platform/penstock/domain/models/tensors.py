"""Tensors of the Open Inference Protocol: a datatype, a shape, and row-major, little-endian bytes.

It needs no numpy: the gateway passes bytes on and never computes with them. Construction checks that bytes, shape and
datatype agree.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from penstock.domain.errors import InvalidField

MAX_RANK = 8
ANY = -1
"""A dimension of a model's input or output that varies."""
HEAD_LENGTH = "inference-header-content-length"
"""The header that gives the length of a body's JSON part; tensors in binary form follow the JSON."""
BINARY_SIZE, AS_BINARY, ALL_AS_BINARY = "binary_data_size", "binary_data", "binary_data_output"
"""Parameters of the binary extension: the size of a tensor's bytes after the JSON, and the outputs wanted in binary."""
CLASSES = "classification"
"""The parameter of an output that asks for its highest values with their labels (Triton's extension)."""
_LENGTH = struct.Struct("<I")
Scalar = bool | int | float


class Datatype(StrEnum):
    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    BF16 = "BF16"
    FP32 = "FP32"
    FP64 = "FP64"
    BYTES = "BYTES"

    @property
    def size_bytes(self) -> int:
        return _SIZES.get(self, 0)


_SIZES = {
    Datatype.BOOL: 1,
    Datatype.UINT8: 1,
    Datatype.UINT16: 2,
    Datatype.UINT32: 4,
    Datatype.UINT64: 8,
    Datatype.INT8: 1,
    Datatype.INT16: 2,
    Datatype.INT32: 4,
    Datatype.INT64: 8,
    Datatype.FP16: 2,
    Datatype.BF16: 2,
    Datatype.FP32: 4,
    Datatype.FP64: 8,
}
_CODES = {
    Datatype.BOOL: "?",
    Datatype.UINT8: "B",
    Datatype.UINT16: "H",
    Datatype.UINT32: "I",
    Datatype.UINT64: "Q",
    Datatype.INT8: "b",
    Datatype.INT16: "h",
    Datatype.INT32: "i",
    Datatype.INT64: "q",
    Datatype.FP16: "e",
    Datatype.FP32: "f",
    Datatype.FP64: "d",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """A dimension may be ``ANY`` in a model's description."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]

    def takes(self, other: "TensorSpec") -> bool:
        return (
            self.name == other.name
            and self.datatype is other.datatype
            and len(self.shape) == len(other.shape)
            and all(mine in (ANY, theirs) for mine, theirs in zip(self.shape, other.shape, strict=True))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """``data`` is its binary form: elements side by side, those of ``BYTES`` with a length prefix."""

    spec: TensorSpec
    data: memoryview

    @property
    def elements(self) -> int:
        return prod(self.spec.shape)


def checked(spec: TensorSpec, data: memoryview) -> Tensor:
    """``InvalidField`` if shape, datatype and bytes disagree."""
    if len(spec.shape) > MAX_RANK:
        raise InvalidField(f"{spec.name} has more than {MAX_RANK} dimensions", param=spec.name)
    if any(size < 0 for size in spec.shape):
        raise InvalidField(f"{spec.name} has a dimension below 0", param=spec.name)
    tensor = Tensor(spec=spec, data=data)
    if spec.datatype is Datatype.BYTES:
        elements_of(tensor)
        return tensor
    needed = tensor.elements * spec.datatype.size_bytes
    if data.nbytes != needed:
        raise InvalidField(
            f"{spec.name} has {data.nbytes} bytes; {spec.datatype} of this shape has {needed}", param=spec.name
        )
    return tensor


def elements_of(tensor: Tensor) -> list[memoryview]:
    """Split a ``BYTES`` tensor; ``InvalidField`` if lengths and shape disagree."""
    found: list[memoryview] = []
    data, count = tensor.data, tensor.elements
    at, end = 0, data.nbytes
    if count * _LENGTH.size > end:
        raise _uneven(tensor)
    for _ in range(count):
        begin = at + _LENGTH.size
        if begin > end:
            raise _uneven(tensor)
        at = begin + _LENGTH.unpack_from(data, at)[0]
        found.append(data[begin:at])
    if at != end:
        raise _uneven(tensor)
    return found


def _uneven(tensor: Tensor) -> InvalidField:
    name = tensor.spec.name
    return InvalidField(f"{name}: the lengths of its elements do not add up to its shape and bytes", param=name)


def joined(elements: Iterable[bytes | memoryview]) -> bytes:
    parts: list[bytes | memoryview] = []
    for element in elements:
        parts += (_LENGTH.pack(len(element)), element)
    return b"".join(parts)


def packed(spec: TensorSpec, values: Sequence[Scalar]) -> bytes:
    """Raises ``InvalidField``: JSON has no numbers for ``BF16`` and ``BYTES``."""
    code = _CODES.get(spec.datatype)
    if code is None:
        raise InvalidField(f"{spec.name}: {spec.datatype} can't be sent as numbers: send it binary", param=spec.name)
    wrong = InvalidField(f"{spec.name} holds a value that is no {spec.datatype}", param=spec.name)
    if spec.datatype is Datatype.BOOL and any(value not in (0, 1) for value in values):
        raise wrong
    try:
        return struct.pack(f"<{len(values)}{code}", *values)
    except (struct.error, OverflowError, TypeError) as error:
        raise wrong from error


def unpacked(tensor: Tensor) -> tuple[Scalar, ...]:
    """``BF16`` and ``BYTES`` have no numbers (``InvalidField``)."""
    code = _CODES.get(tensor.spec.datatype)
    if code is None:
        name = tensor.spec.name
        raise InvalidField(f"{name}: {tensor.spec.datatype} can't be told as numbers: ask for it binary", param=name)
    return struct.unpack(f"<{tensor.elements}{code}", tensor.data)
