"""Writes an answer for REST: JSON, followed by the tensors that were requested in binary form. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from penstock.domain.errors import InvalidField
from penstock.domain.models.tensors import BINARY_SIZE, Datatype, Scalar, Tensor, TensorSpec, elements_of
from penstock.domain.models.tensors import unpacked as numbers_of
from penstock.gateway.oip.nouns import InferAnswer, InferRequest, Named, Parameters

AT_ONCE = 8192
"""Numbers written before the event loop runs other tasks: less than 1 ms."""
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An answer: its JSON in parts that are encoded on demand, and its binary tail."""

    json: Iterator[bytes]
    blobs: list[memoryview]


def written(answer: InferAnswer, request: InferRequest, named: Named) -> Written:
    """Raises ``InvalidField`` if JSON can't express it."""
    how = {one.name: one.is_binary for one in request.outputs}
    head = _ENCODER.encode(_head(named, answer.parameters))
    outputs: list[Iterator[bytes]] = []
    blobs: list[memoryview] = []
    for tensor in answer.outputs:
        if how.get(tensor.spec.name, request.is_binary):
            said = {**described(tensor.spec), "parameters": {BINARY_SIZE: tensor.data.nbytes}}
            outputs.append(iter((_ENCODER.encode(said),)))
            blobs.append(tensor.data)
        else:
            outputs.append(_in_numbers(tensor))
    return Written(json=_json(head, outputs), blobs=blobs)


def _json(head: bytes, outputs: list[Iterator[bytes]]) -> Iterator[bytes]:
    yield head[:-1] + b',"outputs":['
    for i, output in enumerate(outputs):
        if i:
            yield b","
        yield from output
    yield b"]}"


def _in_numbers(tensor: Tensor) -> Iterator[bytes]:
    told = described(tensor.spec)
    if tensor.spec.datatype is Datatype.BYTES or tensor.elements <= AT_ONCE:
        return iter((_ENCODER.encode({**told, "data": values_of(tensor)}),))
    first = values_of(_part(tensor, 0))  # refused now, where it is to be
    return _in_parts(tensor, _ENCODER.encode(told), first)


def _in_parts(tensor: Tensor, told: bytes, first: Sequence[object]) -> Iterator[bytes]:
    yield b'%b,"data":%b' % (told[:-1], _ENCODER.encode(first)[:-1])
    for at in range(AT_ONCE, tensor.elements, AT_ONCE):
        yield b",%b" % _ENCODER.encode(values_of(_part(tensor, at)))[1:-1]
    yield b"]}"


def _part(tensor: Tensor, at: int) -> Tensor:
    size, count = tensor.spec.datatype.size_bytes, min(AT_ONCE, tensor.elements - at)
    return Tensor(spec=replace(tensor.spec, shape=(count,)), data=tensor.data[at * size : (at + count) * size])


def described(spec: TensorSpec) -> dict[str, object]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": spec.shape}


def values_of(tensor: Tensor) -> Sequence[str] | Sequence[Scalar]:
    """Raises ``InvalidField`` if JSON cannot express them."""
    if tensor.spec.datatype is not Datatype.BYTES:
        return numbers_of(tensor)
    try:
        return [str(element, "utf-8") for element in elements_of(tensor)]
    except UnicodeDecodeError as error:
        name = tensor.spec.name
        raise InvalidField(f"{name} holds bytes that are no UTF-8: ask for it binary", param=name) from error


def _head(named: Named, parameters: Parameters) -> dict[str, object]:
    said: dict[str, object] = {"model_name": named.model, "model_version": named.version}
    if named.id:
        said["id"] = named.id
    return said | ({"parameters": parameters} if parameters else {})
