"""What callers of the Open Inference Protocol ask over gRPC beside their tensors, and what they hear beside them."""

import json
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as sync_client
from google.protobuf import descriptor_pool
from grpc_reflection.v1alpha import reflection_pb2
from tritonclient.grpc import aio as triton
from tritonclient.utils import InferenceServerException

from penstock.domain.serving.report import Used
from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from tests.support.gateways.oip import answer
from tests.support.gateways.oip_grpc import AUTH, PLAIN, TEXT, message, raw_call, site, text

pytestmark = pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")


async def test_reflection_of_version_1_answers() -> None:
    """A client that asks v1, as newer ones do, finds the services, and v1's own messages under v1's names."""
    kinds = reflection_pb2.ServerReflectionRequest, reflection_pb2.ServerReflectionResponse

    async def ask(channel: grpc.aio.Channel, **question: str) -> Any:  # noqa: ANN401
        method = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        stream: Any = channel.stream_stream(method, kinds[0].SerializeToString, kinds[1].FromString)
        return await anext(aiter(stream(iter([kinds[0](**question)]))))

    async with site() as at, grpc.aio.insecure_channel(at.address) as channel:
        told = await ask(channel, list_services="")
        names = {one.name for one in told.list_services_response.service}
        found = await ask(channel, file_containing_symbol="grpc.reflection.v1.ServerReflectionRequest")
    assert {f"grpc.reflection.{one}.ServerReflection" for one in ("v1", "v1alpha")} <= names
    pool = descriptor_pool.DescriptorPool()
    for raw in found.file_descriptor_response.file_descriptor_proto:
        pool.AddSerializedFile(raw)
    method = pool.FindServiceByName("grpc.reflection.v1.ServerReflection").methods[0]
    assert method.input_type.full_name == "grpc.reflection.v1.ServerReflectionRequest"


async def test_what_nvidias_client_asks_beside_tensors_is_honoured_or_refused() -> None:
    """Its timeout is the deadline, or the call's own where that is shorter; classes go along, priority is a 400."""
    async with site() as at, triton.InferenceServerClient(at.address) as client:
        pixels = triton.InferInput("pixels", [1, 2, 2], "UINT8")
        pixels.set_data_from_numpy(np.zeros((1, 2, 2), dtype=np.uint8))
        outputs = [triton.InferRequestedOutput("scores", class_count=2)]
        await client.infer("labels", [pixels], outputs=outputs, timeout=250_000, headers=AUTH)
        await client.infer("writer", [text("a")], timeout=60_000_000, client_timeout=30, headers=AUTH)
        classes = [triton.InferRequestedOutput("text_output", class_count=1)]
        refused: dict[str, dict[str, Any]] = {
            "priority is not supported": {"priority": 3},
            "no classes": {"outputs": classes},
        }
        for says, asked in refused.items():
            with pytest.raises(InferenceServerException, match=says):
                await client.infer("writer", [text("a")], headers=AUTH, **asked)
        first, second = (call.request for call in at.toy.seen.calls)
    assert (first.deadline_s, 25 < second.deadline_s < 31) == (0.25, True)
    assert first.tensors is not None
    head = json.loads(first.tensors.data[: first.tensors.head_bytes])
    assert head["outputs"] == [{"name": "scores", "parameters": {"classification": 2}}]


async def test_a_session_comes_in_the_metadata() -> None:
    """It is the one that HTTP's callers send, with the same bounds, in each request of a call."""
    async with site() as at, triton.InferenceServerClient(at.address) as client:
        await client.infer("writer", [text("a")], headers={**AUTH, "x-penstock-session": "shop 17"})
        with pytest.raises(InferenceServerException, match="at most 256 printable ASCII characters"):
            await client.infer("writer", [text("a")], headers={**AUTH, "x-penstock-session": "s" * 257})
        (call,) = at.toy.seen.calls
    assert call.request.session == "shop 17"


async def test_memory_that_can_not_be_shared_is_said() -> None:
    """Tensors that are said to be in shared memory, in or out, are refused as such."""
    shared = {"shared_memory_region": {"string_param": "x"}}
    given: list[dict[str, Any]] = [
        {"inputs": [{**TEXT, "parameters": shared}]},
        {"inputs": [PLAIN], "outputs": [{"name": "text_output", "parameters": shared}]},
    ]
    for fields in given:
        async with site() as at:
            with pytest.raises(grpc.aio.AioRpcError, match="memory can't be shared"):
                await raw_call(at, message(**fields))


async def test_what_an_input_does_not_take_is_said() -> None:
    """A content type was ignored: the bytes were read as what they are, and not as what was said."""
    given = {**TEXT, "parameters": {"content_type": {"string_param": "pd"}}}
    async with site() as at:
        with pytest.raises(grpc.aio.AioRpcError, match="content_type 'pd' of text_input"):
            await raw_call(at, message(inputs=[given]))


async def test_trailers_of_tensors_tell_what_is_billed() -> None:
    """Items and tokens as the worker's gate counted them stand in the answer and behind it."""

    async def counting(call: Call, reply: Reply) -> None:
        call.attempts.used = Used(prompt_tokens=21, prompts=3, sequences=3)
        await answer(call, reply)

    pixels = {"name": "pixels", "datatype": "UINT8", "shape": [3, 2, 2]}
    request = sync_client.service_pb2.ModelInferRequest(
        model_name="labels", inputs=[pixels], raw_input_contents=[bytes(12)]
    )
    async with site(counting) as at:
        raw, trailers = await raw_call(at, request.SerializeToString())
    said = sync_client.service_pb2.ModelInferResponse.FromString(raw).parameters
    assert (trailers["x-penstock-prompt-tokens"], trailers["x-penstock-items"]) == ("21", "3")
    assert (said["prompt_tokens"].int64_param, said["items"].int64_param) == (21, 3)
    assert "edge" in said["stages_ms"].string_param
