"""What is walked element by element on the event loop is bounded before its first element is touched."""

import json
from math import prod
from typing import Any

import pytest
import tritonclient.grpc as triton

from penstock.domain.errors import InvalidField
from penstock.domain.models.tensors import Datatype, Tensor, checked
from penstock.domain.serving.request import Api
from penstock.gateway.oip import json_wire
from penstock.gateway.oip.grpc import messages
from penstock.gateway.oip.grpc.server import options
from penstock.gateway.oip.nouns import MAX_ELEMENTS, MAX_PARAMETERS, InferRequest, Wanted, spec
from penstock.gateway.openai.bounds import BodyBounds
from penstock.intake.limits import Limits
from penstock.packaging.demo_models import DEMO_MODELS

pytestmark = pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")
THEIRS: Any = triton.service_pb2
Sizes = list[list[int]]


class Touched:
    """Notes which tensors are looked into, instead of the real function."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, *given: Any) -> Tensor:  # noqa: ANN401  either function's arguments
        self.names.append(given[0].name)
        return checked(*given)


@pytest.fixture(name="touched")
def _touched(monkeypatch: pytest.MonkeyPatch) -> Touched:
    noted = Touched()
    for module in (messages, json_wire):
        monkeypatch.setattr(module, "checked", noted)
    return noted


def over_grpc(shapes: Sizes) -> InferRequest:
    """Read a message whose raw tensors hold nothing but empty elements."""
    made = THEIRS.ModelInferRequest(model_name="m")
    for i, shape in enumerate(shapes):
        made.inputs.add(name=f"t{i}", datatype="BYTES", shape=shape)
        made.raw_input_contents.append(bytes(4 * shape[0]))
    return messages.Received(made.SerializeToString()).request()


def over_rest(shapes: Sizes) -> InferRequest:
    """Read the same in JSON, with the elements behind it."""
    told = [
        {"name": f"t{i}", "datatype": "BYTES", "shape": shape, "parameters": {"binary_data_size": 4 * shape[0]}}
        for i, shape in enumerate(shapes)
    ]
    head = json.dumps({"inputs": told}).encode()
    return json_wire.read(head + bytes(4 * sum(shape[0] for shape in shapes)), len(head))


@pytest.mark.parametrize("read", [over_grpc, over_rest])
@pytest.mark.parametrize(
    "shapes",
    [
        [[2_000_000]],
        [[MAX_ELEMENTS], [1]],
        [[MAX_ELEMENTS]] * 64,
        [[1]] * 65,
        [[MAX_ELEMENTS], [10, -1], [10]],
        [[1] * 9],
        [[1, 1 << 62, 1 << 62]],
    ],
)
def test_what_is_over_is_refused_before_it_is_touched(read: Any, shapes: Sizes, touched: Touched) -> None:  # noqa: ANN401
    """Empty elements, one tensor of millions or 64 of thousands, held the event loop for up to 30 s."""
    with pytest.raises(InvalidField):
        read(shapes)
    assert touched.names == []


@pytest.mark.parametrize("read", [over_grpc, over_rest])
def test_what_is_within_is_read(read: Any) -> None:  # noqa: ANN401
    """As many elements as may be, in several tensors."""
    half = MAX_ELEMENTS // 2
    assert [one.elements for one in read([[half], [half]]).inputs] == [half, half]


def listed(**changes: Any) -> Any:  # noqa: ANN401  a message of the client
    """Return a message whose one tensor stands in contents."""
    made = THEIRS.ModelInferRequest(model_name="m", **changes)
    made.inputs.add(name="x", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"a")
    return made


def test_contents_beyond_their_shape_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many there are is known before any is copied."""
    made = listed()
    made.inputs[0].contents.bytes_contents.extend([b""] * 100_000)
    monkeypatch.delattr(messages, "joined")
    with pytest.raises(InvalidField, match="which is not what its shape says"):
        messages.Received(made.SerializeToString()).request()


def test_parameters_and_outputs_are_counted_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 000 parameters, or a million outputs, nothing is made."""
    many = listed(parameters={str(i): {"bool_param": True} for i in range(MAX_PARAMETERS + 1)})
    monkeypatch.delattr(messages, "_parameters")
    with pytest.raises(InvalidField, match="parameters"):
        messages.Received(many.SerializeToString()).request()
    monkeypatch.delattr(messages, "wanted")
    with pytest.raises(InvalidField, match="outputs"):
        messages.Received(listed(outputs=[{"name": "y"}] * 65).SerializeToString()).request()


def test_a_message_is_no_larger_than_a_batch_may_be() -> None:
    """Issue 12: gRPC copies messages whole; a full batch of each shipped model fits, and not twice as much."""
    handlers = [model.choices.handler for model in DEMO_MODELS.values() if model.choices.handler is not None]
    batch_bytes = [
        handler.max_batch * abs(prod(one.shape)) * one.datatype.size_bytes
        for handler in handlers
        for one in handler.inputs
    ]
    bound = dict(options(Limits(body_bytes=0)))["grpc.max_receive_message_length"]
    assert max(batch_bytes) < bound < 2 * max(batch_bytes)
    assert bound == BodyBounds().body_bytes(Api.INFER)


def test_an_output_is_named_once() -> None:
    """Found: 64 times the same output made an answer of 45 MB out of a few KB."""
    tensor = checked(spec("x", Datatype.UINT8, 1), memoryview(b"1"))
    with pytest.raises(InvalidField, match="outputs names a tensor twice"):
        InferRequest(inputs=(tensor,), outputs=(Wanted(name="y"), Wanted(name="y", is_binary=True)))
