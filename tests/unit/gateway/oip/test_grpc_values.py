"""Every field of every gRPC message with values at its ends: no fault of ours, and no error that grows with them.

Methods and fields are read from the descriptors: a new one needs no line here.
"""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from penstock.domain.outcome import Outcome
from penstock.gateway.oip.grpc.messages import POOL, SERVICE
from penstock.intake.limits import Limits
from tests.support.gateways.oip_grpc import AUTH, Site, site

pytestmark = pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")
LARGE = 1 << 20
MOST_CHARS, MOST_TRAILERS = 1_000, 8 << 10
DEEPEST = 4
OURS = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DATA_LOSS)
"""Statuses that say that we failed: each spends the error budget."""
LEAST: dict[str, dict[str, Any]] = {
    "ModelInferRequest": {
        "model_name": "writer",
        "inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [1], "contents": {"bytes_contents": [b"hi"]}}],
    },
    "ModelReadyRequest": {"name": "writer"},
    "ModelMetadataRequest": {"name": "writer"},
}
VALUES: dict[int, list[Any]] = {
    FieldDescriptor.CPPTYPE_STRING: ["x" * LARGE, "é\n\x00\x1b[31m" * 4, ""],
    FieldDescriptor.CPPTYPE_INT32: [-(2**31), 2**31 - 1],
    FieldDescriptor.CPPTYPE_INT64: [-(2**63), 2**63 - 1, -1, 0],
    FieldDescriptor.CPPTYPE_UINT32: [2**32 - 1],
    FieldDescriptor.CPPTYPE_UINT64: [2**64 - 1],
    FieldDescriptor.CPPTYPE_DOUBLE: [float("nan"), float("inf"), -1e308],
    FieldDescriptor.CPPTYPE_FLOAT: [float("nan"), float("-inf")],
    FieldDescriptor.CPPTYPE_BOOL: [True],
}
Path = tuple[FieldDescriptor, ...]
Case = tuple[str, Path, Any]


def values(field: FieldDescriptor) -> list[Any]:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return [b"\xff" * LARGE, b""]
    return VALUES.get(field.cpp_type, [])


def paths(kind: Descriptor, before: Path = ()) -> Iterator[Path]:
    """Yield each scalar field, also inside other messages."""
    for field in kind.fields:
        path = (*before, field)
        if field.message_type is None:
            yield path
        elif len(path) < DEEPEST:
            yield from paths(field.message_type, path)


def put(message: Any, path: Path, value: Any) -> None:  # noqa: ANN401  generated classes
    """Set a field to this value, and make what is around it."""
    field, rest = path[0], path[1:]
    many = getattr(message, field.name) if field.is_repeated else None
    if not rest:
        setattr(message, field.name, value) if many is None else many.extend([value, value])
    elif many is None:
        getattr(message, field.name).SetInParent()
        put(getattr(message, field.name), rest, value)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        if rest[0].name == "key":
            many[value].SetInParent()
        elif len(rest) > 1:
            put(many["max_tokens"], rest[1:], value)
    else:
        put(many[0] if len(many) else many.add(), rest, value)


CASES: list[Case] = [
    (method.name, path, value)
    for method in POOL.FindServiceByName(SERVICE).methods
    for path in paths(method.input_type)
    for value in values(path[-1])
]


def sent(method: str, path: Path, value: Any) -> bytes:  # noqa: ANN401  any field's
    kind = POOL.FindServiceByName(SERVICE).methods_by_name[method].input_type
    made: Message = message_factory.GetMessageClass(kind)(**LEAST.get(kind.name, {}))
    put(made, path, value)
    return bytes(made.SerializeToString())


async def ask(channel: Any, method: str, data: bytes) -> tuple[grpc.StatusCode, str, int]:  # noqa: ANN401
    """Return the status, its message, and the bytes of its trailers."""
    address, told = f"/{SERVICE}/{method}", tuple(AUTH.items())
    is_stream = POOL.FindServiceByName(SERVICE).methods_by_name[method].client_streaming
    try:
        if is_stream:
            call = channel.stream_stream(address)(iter([data]), metadata=told)
            async for _ in call:
                pass
        else:
            call = channel.unary_unary(address)(data, metadata=told)
            await call
    except grpc.aio.AioRpcError as error:
        trailers = sum(len(name) + len(value) for name, value in error.trailing_metadata() or ())
        return error.code(), error.details() or "", trailers
    return grpc.StatusCode.OK, "", 0


def named(case: Case) -> str:
    method, path, value = case
    shown = f"{len(value)} long" if isinstance(value, str | bytes) else value
    return f"{method}.{'.'.join(field.name for field in path)}={shown}"


async def walked(at: Site) -> list[str]:
    """Return the cases that met a fault of ours, or an error that grew."""
    faults = []
    async with grpc.aio.insecure_channel(at.address) as channel:
        for case in CASES:
            status, says, trailers = await ask(channel, case[0], sent(*case))
            if status in OURS or len(says) > MOST_CHARS or trailers > MOST_TRAILERS or not says.isprintable():
                faults.append(f"{named(case)}: {status.name} {says[:100]!r} ({len(says)}, {trailers})")
    return faults


async def test_no_value_of_any_field_is_our_fault() -> None:
    """Texts and bytes of a megabyte, the ends of each number's type, control characters: each has its status."""
    assert len(CASES) > 60
    async with site(limits=Limits(drain_grace_s=0.1)) as at:
        assert await walked(at) == []
        assert at.toy.seen.crashed == []


async def test_the_walk_sees_a_fault() -> None:
    """A corridor that crashes is found."""

    async def crashing(*_: object) -> Outcome:
        raise ZeroDivisionError

    async with site(crashing) as at:
        assert [one for one in await walked(at) if "INTERNAL" in one]
