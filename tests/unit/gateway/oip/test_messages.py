"""The messages on the wire: the compiled proto is the text's, numbers are the protocol's, views are views."""

import asyncio
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as triton
from google.protobuf.descriptor import Descriptor
from grpc_tools import protoc
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import MalformedBody
from penstock.domain.models.tensors import Datatype, checked, packed
from penstock.gateway.oip.grpc import messages
from penstock.gateway.oip.grpc.message_reader import received_by
from penstock.gateway.oip.grpc.messages import CLASSES, LARGE_BYTES, Received
from penstock.gateway.oip.nouns import InferAnswer, Named, spec
from penstock.gateway.openai.reading import BodyReader

pytestmark = pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")
FOLDER = Path(messages.__file__).parent
THEIRS: Any = triton.service_pb2


def test_the_compiled_proto_is_the_file() -> None:
    """What is shipped compiled is what protoc makes of the text beside it."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made.binpb"
        assert protoc.main(["", f"-I{FOLDER}", f"--descriptor_set_out={made}", "open_inference.proto"]) == 0
        assert made.read_bytes() == (FOLDER / "open_inference.binpb").read_bytes()


def fields(message: Descriptor) -> Iterator[tuple[str, str, int, int]]:
    """Yield every field of a message and of those inside it."""
    for field in message.fields:
        yield message.full_name, field.name, field.number, field.type
    for inner in message.nested_types:
        yield from fields(inner)


def test_names_and_numbers_are_the_protocols() -> None:
    """Every field of ours is a field of NVIDIA's client, by name, number and type."""
    ours = {one for kind in CLASSES.values() for one in fields(kind.DESCRIPTOR)}
    theirs = {one for name in CLASSES for one in fields(THEIRS.DESCRIPTOR.message_types_by_name[name])}
    assert ours - theirs == set()


def received(data: bytes) -> Received:
    """Read a message without another process."""
    return asyncio.run(received_by(BodyReader(), "a", data))


def request(size: int) -> Any:  # noqa: ANN401  a message of the client
    """Return a request with one raw tensor of so many bytes."""
    made = THEIRS.ModelInferRequest(model_name="m", id="x", raw_input_contents=[b"\1" * size])
    made.inputs.add(name="pixels", datatype="UINT8", shape=[size])
    made.parameters["k"].int64_param = -7
    return made


@pytest.mark.parametrize("size", [8, LARGE_BYTES + 8])
def test_raw_contents_are_what_came(size: int) -> None:
    """Small or large, a request's parameters and bytes are read the same."""
    found = received(request(size).SerializeToString()).request()
    assert (found.id, found.parameters) == ("x", {"k": -7})
    assert bytes(found.inputs[0].data) == b"\1" * size


def test_a_large_tensor_is_not_copied() -> None:
    """The tensor of a large message is a view of the very bytes that came."""
    data = request(4 << 20).SerializeToString()
    (tensor,) = received(data).request().inputs
    assert tensor.data.obj is data


@given(st.binary(max_size=64), st.integers(0, 300))
def test_damaged_messages_are_parted_or_refused(noise: bytes, kept: int) -> None:
    """Whatever comes, nothing of it is lost between the head and the raw contents, or it is refused as no message."""
    data = request(200).SerializeToString()[:kept] + noise
    try:
        head, raw = messages.parted(data)
    except MalformedBody:
        return
    assert len(head) + sum(map(len, raw)) <= len(data)
    assert raw or head == data


CONTENTS: dict[str, tuple[str, list[Any]]] = {
    "BOOL": ("bool_contents", [True, False]),
    "INT8": ("int_contents", [-1, 2]),
    "INT16": ("int_contents", [-300, 2]),
    "INT32": ("int_contents", [-70_000, 2]),
    "INT64": ("int64_contents", [-(1 << 40), 2]),
    "UINT8": ("uint_contents", [255, 2]),
    "UINT16": ("uint_contents", [65_535, 2]),
    "UINT32": ("uint_contents", [1 << 31, 2]),
    "UINT64": ("uint64_contents", [1 << 63, 2]),
    "FP32": ("fp32_contents", [0.5, -2.0]),
    "FP64": ("fp64_contents", [0.1, -2.0]),
}


@pytest.mark.parametrize("datatype", CONTENTS)
def test_contents_of_every_datatype_are_read(datatype: str) -> None:
    """Elements in the field of their datatype become the same bytes as raw ones."""
    field, values = CONTENTS[datatype]
    made = THEIRS.ModelInferRequest(model_name="m")
    getattr(made.inputs.add(name="x", datatype=datatype, shape=[2]).contents, field).extend(values)
    (tensor,) = Received(made.SerializeToString()).request().inputs
    assert bytes(tensor.data) == packed(spec("x", Datatype(datatype), 2), values)


@pytest.mark.parametrize("datatype", list(Datatype))
def test_answers_of_every_datatype_are_read_by_the_client(datatype: Datatype) -> None:
    """Outputs go out raw, and NVIDIA's client reads names, shapes and bytes."""
    data = struct.pack("<I", 3) + b"abc" if datatype is Datatype.BYTES else bytes(range(datatype.size_bytes))
    tensor = checked(spec("y", datatype, 1), memoryview(data))
    answer = InferAnswer(outputs=(tensor,), parameters={"a": True, "b": 1, "c": 0.5, "d": "e"})
    said = THEIRS.ModelInferResponse.FromString(messages.written(answer, Named(model="m", version="v", id="i")))
    assert (said.model_name, said.model_version, said.id) == ("m", "v", "i")
    assert (said.outputs[0].name, said.outputs[0].datatype, list(said.outputs[0].shape)) == ("y", datatype, [1])
    assert list(said.raw_output_contents) == [data]
    assert [said.parameters[name].WhichOneof("parameter_choice") for name in "abcd"] == [
        "bool_param",
        "int64_param",
        "double_param",
        "string_param",
    ]
