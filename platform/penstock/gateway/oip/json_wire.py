"""Reads a REST request: a JSON object, optionally followed by tensors in binary form. Pure.

With ``Inference-Header-Content-Length`` that many bytes are JSON; the rest are the tensors with ``binary_data_size``,
in order, read in place.
Source: Open Inference Protocol, REST; Triton's binary tensor data extension.
"""

import re
from itertools import chain
from math import prod
from typing import cast

import msgspec

from penstock.domain.errors import BodyTooLarge, InvalidField, MalformedBody
from penstock.domain.models.tensors import (
    ALL_AS_BINARY,
    AS_BINARY,
    BINARY_SIZE,
    MAX_RANK,
    Datatype,
    Scalar,
    Tensor,
    TensorSpec,
    checked,
    joined,
    packed,
)
from penstock.gateway.oip.nouns import (
    InferRequest,
    Parameter,
    check_input,
    described_all,
    wanted,
)
from penstock.gateway.openai.depth import MAX_DEPTH

MAX_JSON_BYTES = 4 << 20
"""Bytes of JSON that take 30 ms or more to read. Tensors in binary form after the JSON may be larger."""
MAX_TOLD_BYTES = 64 << 10
"""Bytes of a large JSON beside its tensors' data: names, shapes, parameters."""
_FIELD = re.compile(r"(?:unknown|required) field `(.{1,80}?)`")
_AT = re.compile(r" - at `(?:key in )?\$\.?(.{1,200}?)(?:\[\.\.\.\].*)?`$")
_OF_WIRE = frozenset({BINARY_SIZE, AS_BINARY, ALL_AS_BINARY})
_ABSENT = msgspec.UNSET


class _Tensor(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, Parameter] = {}
    data: object = _ABSENT


class _Wanted(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    name: str
    parameters: dict[str, Parameter] = {}


class _Request(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    inputs: list[_Tensor]
    id: str = ""
    model_name: str = ""
    parameters: dict[str, Parameter] = {}
    outputs: list[_Wanted] = []


_DECODER = msgspec.json.Decoder(_Request)
_ENCODER = msgspec.json.Encoder()


def read(raw: bytes, head_length: int | None = None) -> InferRequest:
    """Parse a body; raises ``MalformedBody`` or ``InvalidField``."""
    head, rest = parted(raw, head_length)
    return _request(_decoded(head), _Binary(rest), None)


def parted(raw: bytes, head_length: int | None) -> tuple[memoryview, memoryview]:
    whole = memoryview(raw)
    if head_length is not None and head_length > len(whole):
        raise MalformedBody("Inference-Header-Content-Length is more than the body has")
    head, rest = whole[:head_length], whole[len(whole) if head_length is None else head_length :]
    if len(head) > MAX_JSON_BYTES:
        raise BodyTooLarge(f"the JSON is larger than {MAX_JSON_BYTES} bytes: send tensors in binary form after it")
    return head, rest


def packed_head(head: memoryview) -> tuple[bytes, list[bytes]]:
    """Return the JSON with each tensor's data replaced by its length, and the data in binary form."""
    asked = _decoded(head)
    blobs: list[bytes] = []
    specs = _specs(asked)
    for spec, one in zip(specs, asked.inputs, strict=True):
        if one.data is not _ABSENT and BINARY_SIZE not in one.parameters:
            blobs.append(_listed(spec, one.data))
            one.data = len(blobs[-1])
    told = _ENCODER.encode(asked)
    if len(told) > MAX_TOLD_BYTES:
        raise BodyTooLarge(f"names, shapes and parameters take more than {MAX_TOLD_BYTES} bytes")
    return told, blobs


def read_packed(told: memoryview, blobs: memoryview, rest: memoryview) -> InferRequest:
    """``rest`` is the binary tail that the caller sent."""
    return _request(_decoded(told), _Binary(rest), _Binary(blobs))


def _request(asked: _Request, binary: "_Binary", blobs: "_Binary | None") -> InferRequest:
    specs = _specs(asked)
    inputs = tuple(_tensor(spec, one, binary, blobs) for spec, one in zip(specs, asked.inputs, strict=True))
    binary.check_end()
    return InferRequest(
        id=asked.id,
        model=asked.model_name,
        parameters={name: value for name, value in asked.parameters.items() if name not in _OF_WIRE},
        inputs=inputs,
        outputs=tuple(wanted(one.name, one.parameters) for one in asked.outputs),
        is_binary=asked.parameters.get(ALL_AS_BINARY) is True,
    )


def _decoded(head: memoryview) -> _Request:
    try:
        asked = _DECODER.decode(head)
    except msgspec.ValidationError as error:
        raise _fault(str(error)) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise MalformedBody("the body is not valid JSON in UTF-8; its numbers can't be NaN or infinite") from error
    except RecursionError as error:
        raise MalformedBody(f"the body is nested deeper than {MAX_DEPTH} levels") from error
    return asked


def _fault(says: str) -> InvalidField:
    at, field = _AT.search(says), _FIELD.search(says)
    path = ".".join(found[1] for found in (at, field) if found)
    what = _AT.sub("", says)[:200]
    remedy = "leave it out" if "unknown field" in what else "send it as the protocol describes it"
    return InvalidField(f"{path}: {what}: {remedy}" if path else what, param=path or None)


class _Binary:
    def __init__(self, rest: memoryview) -> None:
        self._rest = rest

    def take(self, size: Parameter, name: str) -> memoryview:
        if type(size) is not int or size < 0:
            raise InvalidField(f"{name}: {BINARY_SIZE} must be a whole number of bytes", param=name)
        if size > len(self._rest):
            raise InvalidField(f"{name}: {BINARY_SIZE} is more than the body has left", param=name)
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def check_end(self) -> None:
        if self._rest:
            raise InvalidField(f"{len(self._rest)} bytes after the JSON belong to no tensor", param="inputs")


def _specs(asked: _Request) -> list[TensorSpec]:
    return described_all([(one.name, one.datatype, one.shape) for one in asked.inputs])


def _tensor(spec: TensorSpec, given: _Tensor, binary: _Binary, blobs: _Binary | None) -> Tensor:
    name = given.name
    size = given.parameters.get(BINARY_SIZE)
    check_input(spec, given.parameters)
    if size is not None:
        if given.data is not _ABSENT:
            raise InvalidField(f"{name} has data and {BINARY_SIZE}: give one of them", param=name)
        return checked(spec, binary.take(size, name))
    if blobs is not None and type(given.data) is int:
        return checked(spec, blobs.take(given.data, name))
    return checked(spec, memoryview(_listed(spec, given.data)))


def _listed(spec: TensorSpec, data: object) -> bytes:
    if type(data) is not list:
        raise InvalidField(f"{spec.name} must have data, a list, or {BINARY_SIZE}", param=spec.name)
    return _bytes_of(spec, _flat(data, spec.name))


def _flat(data: list[object], name: str) -> list[object]:
    for _ in range(MAX_RANK):
        if not data or type(data[0]) is not list:
            return data
        if not all(type(item) is list for item in data):
            raise InvalidField(f"{name}: data mixes lists and elements", param=name)
        data = list(chain.from_iterable(cast("list[list[object]]", data)))
    raise InvalidField(f"{name}: data is nested deeper than {MAX_RANK} levels", param=name)


def _bytes_of(spec: TensorSpec, values: list[object]) -> bytes:
    name = spec.name
    if len(values) != prod(spec.shape) or any(size < 0 for size in spec.shape):
        raise InvalidField(f"{name} has {len(values)} elements, which is not what its shape says", param=name)
    if spec.datatype is not Datatype.BYTES:
        return packed(spec, cast("list[Scalar]", values))
    if not all(type(value) is str for value in values):
        raise InvalidField(f"{name}: BYTES in JSON are strings", param=name)
    return joined(cast("str", value).encode() for value in values)
