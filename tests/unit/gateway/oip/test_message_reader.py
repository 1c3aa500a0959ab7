"""Large messages of tensors, read elsewhere: the same request, the same refusals, and nothing parsed or walked here."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import tritonclient.grpc as triton

from penstock.domain.errors import BadRequest, BodyTooLarge, InvalidField, MalformedBody
from penstock.gateway.oip.grpc import message_reader
from penstock.gateway.oip.grpc.message_reader import MAX_LISTED_BYTES, received_by
from penstock.gateway.oip.grpc.messages import LARGE_BYTES, MAX_TOLD_BYTES, Received
from penstock.gateway.oip.nouns import InferRequest
from penstock.gateway.openai.reading import BodyReader
from tests.support.gateways.inline_pool import Here

pytestmark = pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")
THEIRS: Any = triton.service_pb2
MANY = LARGE_BYTES


def read_by(other: Here, data: bytes) -> InferRequest:
    return asyncio.run(received_by(BodyReader(other, messages_task=b"M"), "a", data)).request()


def told(read: InferRequest) -> object:
    """Return everything that was read, with bytes that can be compared."""
    return read.id, read.parameters, [(one.spec, bytes(one.data)) for one in read.inputs], read.outputs


def listed(field: str, datatype: str, values: Sequence[object], shape: Sequence[int]) -> Any:  # noqa: ANN401
    """Return a message of two tensors in contents."""
    made = THEIRS.ModelInferRequest(model_name="m", id="7", parameters={"k": {"int64_param": -7}})
    getattr(made.inputs.add(name="x", datatype=datatype, shape=shape).contents, field).extend(values)
    made.inputs.add(name="y", datatype="BYTES", shape=[2]).contents.bytes_contents.extend([b"", b"abc"])
    made.outputs.add(name="z")
    return made


GOOD = [
    listed("int64_contents", "INT64", range(-9, MANY), [MANY + 9]),
    listed("fp32_contents", "FP32", [0.5] * MANY, [MANY]),
    listed("bytes_contents", "BYTES", [b"some text"] * 4096, [4096]),
]
BAD = [
    (listed("fp32_contents", "FP32", [0.5] * MANY, [MANY + 1]), InvalidField),
    (listed("fp32_contents", "FP32", [0.5] * MANY, [1] * 200_000), InvalidField),
    (listed("fp32_contents", "INT8", [0.5] * MANY, [MANY]), InvalidField),
    (listed("bytes_contents", "BYTES", [b""] * 300_000, [300_000]), InvalidField),
    (THEIRS.ModelInferRequest(inputs=[{"name": "x" * MANY * 2, "datatype": "INT8", "shape": [0]}]), InvalidField),
    (THEIRS.ModelInferRequest(id="x" * 2 * MAX_TOLD_BYTES, raw_input_contents=[b"a"]), BodyTooLarge),
    (listed("fp64_contents", "FP64", [0.5] * (MAX_LISTED_BYTES // 8), [MAX_LISTED_BYTES // 8]), BodyTooLarge),
]


@pytest.mark.parametrize("made", GOOD)
def test_a_large_message_says_the_same_as_it_would_here(made: Any) -> None:  # noqa: ANN401
    """Numbers and bytes in contents: what was parsed elsewhere is the same request."""
    other, data = Here(message_reader.read), made.SerializeToString()
    assert told(read_by(other, data)) == told(Received(data).request())
    assert other.asked == 1


@pytest.mark.parametrize("made", GOOD)
def test_nothing_of_a_large_message_is_parsed_here(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    """To parse and pack 260 000 numbers held the event loop for a quarter of a second."""
    parsed: list[int] = []

    class Noted(Received):
        def __init__(self, head: bytes, raw: list[memoryview] | None = None) -> None:
            parsed.append(len(head))
            super().__init__(head, raw)

    monkeypatch.setattr(message_reader, "Received", Noted)
    read_by(Here(message_reader.read), made.SerializeToString())
    assert max(parsed) < LARGE_BYTES


@pytest.mark.parametrize(("made", "kind"), BAD)
def test_a_large_message_that_can_not_be_is_refused(made: Any, kind: type[BadRequest]) -> None:  # noqa: ANN401
    """Contradictions and whatever is beyond its bound, in words that come back from there."""
    with pytest.raises(kind):
        read_by(Here(message_reader.read), made.SerializeToString())


def test_what_is_no_message_is_refused() -> None:
    """Text that is no UTF-8, found elsewhere."""
    with pytest.raises(MalformedBody):
        read_by(Here(message_reader.read), b"\x0a\x80\x80\x04" + b"\xff" * (1 << 16))


def test_raw_contents_are_read_here() -> None:
    """Megabytes of raw tensors go nowhere: what stands beside them is small."""
    made = THEIRS.ModelInferRequest(model_name="m", raw_input_contents=[b"\1" * (1 << 20)])
    made.inputs.add(name="x", datatype="UINT8", shape=[1 << 20])
    other = Here(message_reader.read)
    assert read_by(other, made.SerializeToString()).inputs[0].data.nbytes == 1 << 20
    assert other.asked == 0
