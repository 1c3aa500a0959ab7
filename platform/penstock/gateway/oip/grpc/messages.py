"""The protocol's messages: classes from the compiled proto, and the translation of requests and answers. Pure.

The classes live in a separate descriptor pool, so that another copy of the protocol in the process does not conflict.
Raw contents are not parsed: only a large message's outermost fields are scanned, and contents stay views of the
received bytes; output contents are appended with one copy. Source: Protocol Buffers' encoding;
``open_inference.proto``.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from math import prod
from types import MappingProxyType
from typing import Any, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from penstock.domain.errors import BodyTooLarge, InvalidField, MalformedBody
from penstock.domain.models.tensors import Datatype, Scalar, Tensor, TensorSpec, checked, joined, packed
from penstock.gateway.oip.nouns import (
    MAX_TENSORS,
    InferAnswer,
    InferRequest,
    Named,
    Parameter,
    Parameters,
    check_input,
    check_parameters,
    described_all,
    wanted,
)

SERVICE = "inference.GRPCInferenceService"
LARGE_BYTES = 16 << 10
"""Bytes up to which messages are parsed whole, in 2 ms at most; in larger ones raw contents are located first."""
MAX_TOLD_BYTES = 64 << 10
"""Bytes of a message beside its tensors' data: names, shapes, parameters."""
MAX_FIELDS = 1024
"""Outermost fields of a large message: names, parameters, tensors and their contents; scanning takes 1 ms."""
MAX_LISTED = 1 << 18
"""Elements of a tensor that may be sent one by one: more must be sent raw."""
_RAW_INPUT, _RAW_OUTPUT, _STREAMED = 7, 6, 2
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BITS = 63

POOL = descriptor_pool.DescriptorPool()


def _classes() -> Mapping[str, Any]:
    compiled = descriptor_pb2.FileDescriptorSet.FromString(
        files(__package__).joinpath("open_inference.binpb").read_bytes()
    )
    (file,) = compiled.file
    POOL.AddSerializedFile(file.SerializeToString())
    names = [message.name for message in file.message_type]
    return {n: message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"{file.package}.{n}")) for n in names}


CLASSES = _classes()
_REQUEST, _RESPONSE = CLASSES["ModelInferRequest"], CLASSES["ModelInferResponse"]
_NONE: Parameters = MappingProxyType({})
_CONTENTS: Mapping[str, tuple[Datatype, ...]] = {
    "bool_contents": (Datatype.BOOL,),
    "int_contents": (Datatype.INT8, Datatype.INT16, Datatype.INT32),
    "int64_contents": (Datatype.INT64,),
    "uint_contents": (Datatype.UINT8, Datatype.UINT16, Datatype.UINT32),
    "uint64_contents": (Datatype.UINT64,),
    "fp32_contents": (Datatype.FP32,),
    "fp64_contents": (Datatype.FP64,),
    "bytes_contents": (Datatype.BYTES,),
}


# -- requests ------------------------------------------------------------------------------------


class Received:
    __slots__ = ("message", "raw")

    def __init__(self, head: bytes, raw: list[memoryview] | None = None) -> None:
        try:
            self.message: Any = _REQUEST.FromString(head)
        except DecodeError as error:
            raise MalformedBody("the message is no ModelInferRequest, or holds text that is no UTF-8") from error
        self.raw = [memoryview(one) for one in self.message.raw_input_contents] if raw is None else raw

    def request(self) -> InferRequest:
        """Return the request; raises ``InvalidField``."""
        message, raw = self.message, self.raw
        if len(message.outputs) > MAX_TENSORS:
            raise InvalidField(f"outputs holds more than {MAX_TENSORS} tensors", param="outputs")
        given = message.inputs[: MAX_TENSORS + 1]
        check_parameters(message.parameters, *(one.parameters for one in (*given, *message.outputs)))
        specs = described_all([(one.name, one.datatype, one.shape) for one in given])
        if raw and len(raw) != len(message.inputs):
            raise InvalidField(f"{len(raw)} raw_input_contents for {len(message.inputs)} inputs", param="inputs")
        views: Sequence[memoryview | None] = raw or [None] * len(specs)
        inputs = tuple(_input(*given) for given in zip(specs, message.inputs, views, strict=True))
        return InferRequest(
            id=message.id,
            parameters=_parameters(message.parameters),
            inputs=inputs,
            outputs=tuple(wanted(one.name, _parameters(one.parameters)) for one in message.outputs),
            is_binary=True,
        )


def packed_head(head: bytes) -> tuple[bytes, list[bytes]]:
    """Return a message without element-wise contents, and these in binary form; raises ``BadRequest``."""
    received = Received(head, [])
    blobs = [bytes(one.data) for one in received.request().inputs]
    for given in received.message.inputs:
        given.ClearField("contents")
        given.ClearField("parameters")
    told: bytes = received.message.SerializeToString()
    check_told(told)
    return told, blobs


def check_told(head: bytes) -> None:
    """Bytes that names, shapes and parameters may have; raises ``BodyTooLarge``."""
    if len(head) > MAX_TOLD_BYTES:
        raise BodyTooLarge(f"names, shapes and parameters take more than {MAX_TOLD_BYTES} bytes")


def _input(spec: TensorSpec, given: Any, raw: memoryview | None) -> Tensor:  # noqa: ANN401  a message of the pool
    name, datatype = spec.name, spec.datatype
    check_input(spec, _parameters(given.parameters))
    if raw is not None:
        if given.HasField("contents"):
            raise InvalidField(
                f"{name} has contents, and the message raw_input_contents: send only one of them", param=name
            )
        return checked(spec, raw)
    filled = [field.name for field, _ in given.contents.ListFields()]
    for field in filled:
        if datatype not in _CONTENTS[field]:
            raise InvalidField(f"{name} is {datatype}, and its contents stand in {field}", param=name)
    values = getattr(given.contents, filled[0]) if filled else ()
    if len(values) > MAX_LISTED:
        raise InvalidField(f"{name} has more than {MAX_LISTED} elements in contents: send it raw", param=name)
    if len(values) != prod(spec.shape):
        raise InvalidField(f"{name} has {len(values)} elements, which is not what its shape says", param=name)
    if datatype is Datatype.BYTES:  # what was packed here just now adds up
        return Tensor(spec=spec, data=memoryview(joined(cast("Iterable[bytes]", values))))
    return Tensor(spec=spec, data=memoryview(packed(spec, cast("Sequence[Scalar]", values))))


def _parameters(given: Mapping[str, Any]) -> Parameters:
    if not given:
        return _NONE
    return {name: getattr(one, chosen) for name, one in given.items() if (chosen := one.WhichOneof("parameter_choice"))}


def parted(data: bytes) -> tuple[bytes, list[memoryview]]:
    """Split by outermost fields into message and raw contents; raises ``MalformedBody``."""
    view, at, begin = memoryview(data), 0, 0
    kept: list[memoryview] = []
    raw: list[memoryview] = []
    fields = 0
    while at < len(data):
        fields += 1
        if fields > MAX_FIELDS:
            raise MalformedBody(f"the message has more than {MAX_FIELDS} fields")
        tag, value = _varint(data, at)
        end = _end(data, tag & 7, value)
        if tag == _RAW_INPUT << 3 | _DELIMITED:
            kept.append(view[begin:at])
            begin = end
            raw.append(view[_varint(data, value)[1] : end])
        at = end
    kept.append(view[begin:])
    return b"".join(kept), raw


def _end(data: bytes, kind: int, at: int) -> int:
    if kind == _VARINT:
        return _varint(data, at)[1]
    if kind == _DELIMITED:
        size, at = _varint(data, at)
        end = at + size
    elif kind in (_FIXED64, _FIXED32):
        end = at + (8 if kind == _FIXED64 else 4)
    else:
        raise MalformedBody("the message is no ModelInferRequest")
    if end > len(data):
        raise MalformedBody("the message ends in the middle of a field")
    return end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift <= _MAX_VARINT_BITS:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004  the bit that says that more follows
            return value, at
        shift += 7
    raise MalformedBody("the message ends in the middle of a number")


# -- answers ---------------------------------------------------------------------------------------


def written(answer: InferAnswer, named: Named) -> bytes:
    return b"".join(_pieces(answer, named))


def streamed(answer: InferAnswer, named: Named, error: str = "") -> bytes:
    pieces = _pieces(answer, named)
    told = CLASSES["ModelStreamInferResponse"](error_message=error).SerializeToString()
    return b"".join((told, _prefix(_STREAMED, sum(map(len, pieces))), *pieces))


class Piece:
    """The data of the only ``BYTES`` tensor vary, the rest is encoded once."""

    __slots__ = ("_head",)

    def __init__(self, named: Named, outputs: tuple[Tensor, ...], parameters: Parameters) -> None:
        self._head = bytes(_pieces(InferAnswer(outputs=outputs, parameters=parameters), named)[0])

    def of(self, element: bytes) -> bytes:
        size = len(element)
        raw = _prefix(_RAW_OUTPUT, size + 4)
        whole = _prefix(_STREAMED, len(self._head) + len(raw) + 4 + size)
        return b"".join((whole, self._head, raw, size.to_bytes(4, "little"), element))


def _pieces(answer: InferAnswer, named: Named) -> list[bytes | memoryview]:
    message = _RESPONSE(model_name=named.model, model_version=named.version, id=named.id)
    for name, value in answer.parameters.items():
        _set(message.parameters[name], value)
    for tensor in answer.outputs:
        spec = tensor.spec
        message.outputs.add(name=spec.name, datatype=spec.datatype, shape=spec.shape)
    pieces: list[bytes | memoryview] = [message.SerializeToString()]
    for tensor in answer.outputs:
        pieces += (_prefix(_RAW_OUTPUT, tensor.data.nbytes), tensor.data)
    return pieces


def _set(parameter: Any, value: Parameter) -> None:  # noqa: ANN401  a message of the pool
    if isinstance(value, bool):
        parameter.bool_param = value
    elif isinstance(value, int):
        parameter.int64_param = value
    elif isinstance(value, float):
        parameter.double_param = value
    else:
        parameter.string_param = value


def _prefix(field: int, size: int) -> bytes:
    out = bytearray((field << 3 | _DELIMITED,))
    while size >= 0x80:  # noqa: PLR2004  seven bits to a byte
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)


def message(kind: str, /, **fields: object) -> bytes:
    made: Message = CLASSES[kind](**fields)
    return made.SerializeToString()
