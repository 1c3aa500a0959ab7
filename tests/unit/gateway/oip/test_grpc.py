"""The Open Inference Protocol over gRPC, asked by NVIDIA's own client of a server on a real socket."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tritonclient.grpc import aio as triton
from tritonclient.utils import InferenceServerException

from penstock.domain.errors import ClientGone, Overloaded
from penstock.domain.serving.request import Api
from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from penstock.intake.limits import Limits
from tests.support.clients.http2 import ACK, SETTINGS, Http2, frame, indexed, referring
from tests.support.gateways.oip import EMBEDDER, VECTOR, WRITER
from tests.support.gateways.oip_grpc import AUTH, PLAIN, TEXT, Site, message, raw_call, site, text, until

pytestmark = pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")


async def stream(call: Call, reply: Reply) -> None:
    """Answer as the relay of a completion does: a token at a time."""
    reply.start(200, [(b"x-penstock-version", WRITER.id.encode()), (b"server-timing", b"queue;dur=1.000")])
    count = call.request.cost.output_tokens
    for i in range(count):
        reason = b'"length"' if i == count - 1 else b"null"
        reply.write(b'data: {"id":"c","choices":[{"index":0,"text":" t%d","finish_reason":%b}]}\n\n' % (i, reason))
        await asyncio.sleep(0)
    usage = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":%d}}\n\n' % count
    note = b': penstock {"request_id":"r","version":"v","stages_ms":{"queue":1.0}}\n\n'
    reply.write(usage + note + b"data: [DONE]\n\n")
    reply.finish()


async def test_a_model_that_writes_answers() -> None:
    """Texts in, texts out, in the batch's order; trailers tell id, version, stages and usage."""
    async with site() as at, triton.InferenceServerClient(at.address) as client:
        outputs = [triton.InferRequestedOutput("text_output")]
        found = await client.infer(
            "writer", [text("a", "b")], outputs=outputs, request_id="mine", headers=AUTH, parameters={"max_tokens": 4}
        )
        said = found.get_response()
        assert found.as_numpy("text_output").tolist() == [b"<a>", b"<b>"]
        assert (said.id, said.model_version, said.parameters["prompt_tokens"].int64_param) == ("mine", "a" * 12, 3)
        request = at.toy.seen.calls[0].request
        assert (request.api, request.cost.prompts, request.cost.output_tokens) == (Api.COMPLETIONS, 2, 8)


async def test_a_model_that_embeds_answers_with_its_exact_numbers() -> None:
    """Vectors come raw, as NumPy reads them."""
    async with site() as at, triton.InferenceServerClient(at.address) as client:
        found = await client.infer("embedder", [text("a", "b", shape=(2, 1))], headers=AUTH)
        assert found.as_numpy("embedding").tolist() == [list(VECTOR), list(VECTOR)]
        assert at.toy.seen.calls[0].request.body["input"] == ["a", "b"]


async def test_trailers_tell_version_stages_and_usage() -> None:
    """What headers say over HTTP stands in the call's trailing metadata."""
    async with site() as at:
        _, trailers = await raw_call(at, message(inputs=[PLAIN]))
    assert trailers["x-penstock-version"] == WRITER.id
    assert (trailers["x-penstock-prompt-tokens"], trailers["x-penstock-output-tokens"]) == ("3", "2")
    assert trailers["x-request-id"] == at.toy.seen.calls[0].request.id


async def test_tokens_are_streamed() -> None:
    """A model that writes answers a stream in pieces, whose text is the whole; the last one says how it ended."""
    async with site(stream) as at, triton.InferenceServerClient(at.address) as client:

        async def ask() -> AsyncIterator[dict[str, Any]]:
            for name in ("one", "two"):
                yield {
                    "model_name": "writer",
                    "inputs": [text("hi")],
                    "request_id": name,
                    "parameters": {"max_tokens": 5},
                }

        texts: dict[str, str] = {"one": "", "two": ""}
        finals: dict[str, Any] = {}
        async for found, error in client.stream_infer(ask(), headers=AUTH):
            assert error is None
            said = found.get_response()
            texts[said.id] += found.as_numpy("text_output")[0].decode()
            if said.parameters["triton_final_response"].bool_param:
                finals[said.id] = (found.as_numpy("finish_reason")[0], said.parameters["output_tokens"].int64_param)
        assert texts == {"one": " t0 t1 t2 t3 t4", "two": " t0 t1 t2 t3 t4"}
        assert finals == {"one": (b"length", 5), "two": (b"length", 5)}


async def test_an_error_in_a_stream_names_its_request_and_ends_no_other() -> None:
    """What is refused is an error message with the request's id; the stream goes on."""
    async with site(stream) as at, triton.InferenceServerClient(at.address) as client:

        async def ask() -> AsyncIterator[dict[str, Any]]:
            yield {"model_name": "nobodys", "inputs": [text("hi")], "request_id": "bad"}
            yield {"model_name": "writer", "inputs": [text("a", "b")], "request_id": "batch"}
            yield {"model_name": "writer", "inputs": [text("hi")], "parameters": {"max_tokens": 2}}

        errors, texts = [], ""
        async for found, error in client.stream_infer(ask(), headers=AUTH):
            if error is not None:
                errors.append(error.message())
            else:
                texts += found.as_numpy("text_output")[0].decode()
        assert texts == " t0 t1"
        assert ["does not exist" in errors[0], "one text" in errors[1], len(errors)] == [True, True, 2]


async def refused(at: Site, request: bytes, **options: Any) -> grpc.aio.AioRpcError:  # noqa: ANN401
    """Return the error of a call that must not succeed."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await raw_call(at, request, **options)
    return caught.value


@pytest.mark.parametrize(
    "request_",
    [
        message(),
        message(inputs=[{**TEXT, "datatype": "INT32", "contents": {"bytes_contents": [b"hi"]}}]),
        message(inputs=[{**TEXT, "datatype": "WORDS"}]),
        message(inputs=[{**TEXT, "shape": [2], "contents": {"bytes_contents": [b"hi"]}}]),
        message(inputs=[{**TEXT, "shape": [0]}]),
        message(inputs=[{**TEXT, "shape": [1_000_000]}], raw_input_contents=[b""]),
        message(inputs=[{**TEXT, "contents": {"bytes_contents": [b"\xff"]}}]),
        message(inputs=[PLAIN], raw_input_contents=[struct.pack("<I", 2) + b"hi"]),
        message(inputs=[TEXT], raw_input_contents=[struct.pack("<I", 9) + b"hi"]),
        message(inputs=[TEXT], raw_input_contents=[b"", b""]),
        message(inputs=[PLAIN], outputs=[{"name": "logits"}]),
        message(inputs=[PLAIN], parameters={"stream": {"bool_param": True}}),
        message(inputs=[PLAIN] * 100),
        b"\x0a\xff",
        b"\x0a\x02\xff\xff",
        b"\x3a\x01" * 50_000,
    ],
)
async def test_what_can_not_be_is_an_invalid_argument(request_: bytes) -> None:
    """Datatypes, shapes, counts and bytes that contradict one another are refused in words and details."""
    async with site() as at:
        error = await refused(at, request_)
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert error.details()
        assert not at.toy.seen.calls


async def test_an_error_has_googles_details() -> None:
    """Code, field and the time to come back stand where clients of gRPC look for them."""

    async def refuse(*_: object) -> None:
        raise Overloaded(retry_after_s=3.0, reason="queue")

    async with site(refuse) as at:
        error = await refused(at, message(inputs=[PLAIN]))
        trailers = dict(error.trailing_metadata() or ())
        said = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
        info, delay = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        assert [one.Unpack(found) for one, found in zip(said.details, (info, delay), strict=True)] == [True, True]
        assert (error.code(), info.reason, info.metadata["reason"], delay.retry_delay.seconds) == (
            grpc.StatusCode.UNAVAILABLE,
            "OVERLOADED",
            "queue",
            3,
        )
        assert (trailers["retry-after"], trailers["x-penstock-code"]) == ("3", "overloaded")


async def test_a_stranger_is_refused_before_its_message() -> None:
    """Without a valid key nothing is read, whatever the call."""
    async with site() as at, triton.InferenceServerClient(at.address) as client:
        for ask in (
            client.get_model_metadata("writer"),
            client.is_model_ready("nobodys"),
            client.get_model_repository_index(),
            client.infer("writer", [text("a")]),
        ):
            with pytest.raises(InferenceServerException, match="API key"):
                await ask
        assert await client.is_server_live()
        assert not at.toy.seen.calls


async def test_models_are_described() -> None:
    """Metadata, readiness and the index say what REST says; a model that nobody knows is not ready, and no error."""
    async with site() as at, triton.InferenceServerClient(at.address) as client:
        told = await client.get_model_metadata("embedder", headers=AUTH)
        assert (list(told.versions), told.outputs[0].name, list(told.outputs[0].shape)) == (
            ["b" * 12],
            "embedding",
            [-1, -1],
        )
        assert await client.is_model_ready("writer", "a" * 12, headers=AUTH)
        assert not await client.is_model_ready("embedder", headers=AUTH)
        assert not await client.is_model_ready("nobodys", headers=AUTH)
        lines = (await client.get_model_repository_index(headers=AUTH)).models
        assert [(line.name, line.state) for line in lines] == [
            ("writer", "READY"),
            ("embedder", "UNAVAILABLE"),
            ("labels", "READY"),
        ]
        assert (await client.get_server_metadata()).name == "penstock"
        assert await client.is_server_ready()
    assert EMBEDDER.id.endswith("b" * 12)


def waiting(seen: list[str]) -> Callable[[Call, Reply], Awaitable[None]]:
    """Return a corridor that waits for its client's leaving, and notes it."""

    async def serve(_: Call, reply: Reply) -> None:
        left = asyncio.Event()
        reply.watch(on_gone=left.set, on_pause=left.clear, on_resume=left.clear)
        seen.append("waits")
        await left.wait()
        seen.append("left")
        raise ClientGone

    return serve


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer"])
async def test_a_client_that_leaves_is_noticed(method: str) -> None:
    """A cancelled call ends its request through its reply, as a closed connection does over HTTP/1.1."""
    seen: list[str] = []
    async with site(waiting(seen)) as at, grpc.aio.insecure_channel(at.address) as channel:
        path, metadata = f"/inference.GRPCInferenceService/{method}", tuple(AUTH.items())
        if method == "ModelInfer":
            unary: Any = channel.unary_unary(path)
            call = unary(message(inputs=[PLAIN]), metadata=metadata)
        else:
            both: Any = channel.stream_stream(path)
            call = both(metadata=metadata)
            await call.write(message(inputs=[PLAIN]))
        await until(lambda: bool(seen))
        call.cancel()
        await until(lambda: seen == ["waits", "left"])
        with suppress(asyncio.CancelledError):
            await call.code()


async def test_the_calls_own_deadline_is_the_requests() -> None:
    """``grpc-timeout`` bounds the request; the shorter of it and the header counts."""
    async with site() as at:
        await raw_call(at, message(inputs=[PLAIN]), timeout=20.0)
        await raw_call(at, message(inputs=[PLAIN]))
    first, second = (call.request.deadline_s for call in at.toy.seen.calls)
    assert 18.0 < first <= 20.2  # the library rounds up what it sends
    assert second == 0.0


@pytest.mark.parametrize("before", [0, 3])
async def test_metadata_of_a_megabyte_ends_its_connection_alone(before: int) -> None:
    """A client that sends endless metadata hears a status, on a new connection or a used one; the server goes on."""
    async with site() as at:
        async with grpc.aio.insecure_channel(at.address) as channel:
            call: Any = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            for _ in range(before):
                await call(message(inputs=[PLAIN]), metadata=tuple(AUTH.items()))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(message(inputs=[PLAIN]), metadata=(*AUTH.items(), ("x-much", "a" * (1 << 20))))
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await raw_call(at, message(inputs=[PLAIN]))


@pytest.mark.parametrize("acknowledges", [True, False])
async def test_references_to_a_long_field_cost_no_memory(acknowledges: bool) -> None:
    """Calls of 3 KB that decode to 12 MB end their connections, with or without an acknowledgement (RFC 7541, 7.3)."""
    method = "/inference.GRPCInferenceService/ServerLive"
    process = psutil.Process()
    async with site() as at:
        before = process.memory_info().rss
        for _ in range(60):
            async with await Http2.to(at.address) as client:
                if acknowledges:
                    client.send(frame(SETTINGS, ACK, 0))
                client.send(indexed(1, method, 3900) + b"".join(referring(i, method, 3000) for i in range(3, 303, 2)))
                await asyncio.wait_for(client.closed.wait(), 10.0)
        assert process.memory_info().rss - before < 100 << 20
        await raw_call(at, message(inputs=[PLAIN]))


async def test_a_message_beyond_the_bound_is_refused() -> None:
    """What is larger than a body may be ends in a status that says so."""
    async with site(limits=Limits(body_bytes=100_000, drain_grace_s=0.1)) as at:
        error = await refused(at, message(inputs=[{**TEXT, "contents": {"bytes_contents": [b"a" * 200_000]}}]))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_stream_that_ends_without_a_message_ends() -> None:
    """A half-closed call is answered: by an error where it had to hold a message, by nothing where it could."""
    async with site() as at, grpc.aio.insecure_channel(at.address) as channel:
        metadata = tuple(AUTH.items())
        call: Any = channel.stream_stream("/inference.GRPCInferenceService/ModelInfer")(metadata=metadata)
        await call.done_writing()
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        call = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")(metadata=metadata)
        await call.done_writing()
        assert await call.code() is grpc.StatusCode.OK


async def test_health_and_reflection_answer_generic_clients() -> None:
    """A client that knows nothing of the service finds it, its messages and its health."""
    async with site() as at:
        async with grpc.aio.insecure_channel(at.address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            said = await health.Check(health_pb2.HealthCheckRequest(service="inference.GRPCInferenceService"))
            assert said.status == health_pb2.HealthCheckResponse.SERVING

        def reflect() -> tuple[list[str], list[str]]:
            with grpc.insecure_channel(at.address) as channel:
                database = ProtoReflectionDescriptorDatabase(channel)
                file = database.FindFileContainingSymbol("inference.GRPCInferenceService")
                return list(database.get_services()), [method.name for method in file.service[0].method]

        services, methods = await asyncio.to_thread(reflect)
    assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= set(services)
    assert {"ModelInfer", "ModelStreamInfer", "RepositoryIndex"} <= set(methods)


async def test_a_model_of_tensors_answers_with_tensors() -> None:
    """Raw pixels and an encoded image go to the worker untouched, and its scores come back."""
    async with site() as at, triton.InferenceServerClient(at.address) as client:
        pixels = triton.InferInput("pixels", [3, 2, 2], "UINT8")
        pixels.set_data_from_numpy(np.arange(12, dtype=np.uint8).reshape(3, 2, 2))
        found = await client.infer("labels", [pixels], headers=AUTH)
        assert found.as_numpy("scores").tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
        image = triton.InferInput("image", [1], "BYTES")
        image.set_data_from_numpy(np.array([b"\xff\xd8jpeg"], dtype=np.object_))
        await client.infer("labels", [image], headers=AUTH)
        sent = [call.request.tensors for call in at.toy.seen.calls]
        assert sent[0] is not None
        assert sent[1] is not None
        assert sent[0].data.endswith(bytes(range(12)))
        assert sent[1].data.endswith(b"\xff\xd8jpeg")
