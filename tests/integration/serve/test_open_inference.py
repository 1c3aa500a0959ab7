"""The Open Inference Protocol on real engines, asked by NVIDIA's own clients: HTTP, gRPC, asyncio, streams."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from openai import OpenAI
from tritonclient.grpc import aio as triton_aio
from tritonclient.http import aio as triton_http_aio
from tritonclient.utils import InferenceServerException

from tests.support.engines.likeness import COUNTING
from tests.support.platforms.local import Platform

Client = Any
"""NVIDIA's clients and their modules have no types; the one for HTTP writes into the headers that it is given."""
pytestmark = pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")
PROMPT = COUNTING
TOKENS = 12


@pytest.fixture(scope="module")
def address(platform: Platform) -> str:
    """Return the platform's gRPC address."""
    return (Path(platform.home) / "run/gateway.grpc.addr").read_text()


@pytest.fixture
def auth(platform: Platform) -> dict[str, str]:
    """Return the demo tenant's key as clients of the protocol send it."""
    return {"authorization": f"Bearer {platform.demo_key}"}


@pytest.fixture
def grpc_client(address: str) -> Iterator[Any]:
    with triton_grpc.InferenceServerClient(address) as client:
        yield client


@pytest.fixture
def http_client(platform: Platform) -> Iterator[Any]:
    with triton_http.InferenceServerClient(platform.url.removeprefix("http://")) as client:
        yield client


def text(module: Client, *texts: str) -> Client:
    """Return an input of texts for this client."""
    made = module.InferInput("text_input", [len(texts)], "BYTES")
    made.set_data_from_numpy(np.array([one.encode() for one in texts], dtype=np.object_))
    return made


GREEDY = {"max_tokens": TOKENS, "temperature": 0.0}


@pytest.fixture(scope="module")
def expected(platform: Platform) -> str:
    """Return what the model writes over its own API, greedily."""
    with OpenAI(base_url=f"{platform.url}/v1", api_key=platform.demo_key) as sdk:
        said = sdk.completions.create(model="smollm2", prompt=PROMPT, max_tokens=TOKENS, temperature=0.0)
    return said.choices[0].text


def test_the_same_text_comes_over_http_and_grpc(
    http_client: Client, grpc_client: Client, auth: dict[str, str], expected: str
) -> None:
    """A greedy answer is the one that the completions API gives, over both of the protocol's wires."""
    for module, client in ((triton_http, http_client), (triton_grpc, grpc_client)):
        found = client.infer("smollm2", [text(module, PROMPT)], headers={**auth}, parameters=GREEDY)
        assert found.as_numpy("text_output").tolist() == [expected.encode()]


def test_tokens_stream_over_grpc(grpc_client: Client, auth: dict[str, str], expected: str) -> None:
    """The callback hears pieces that add up to the whole answer, and usage with the last."""
    pieces: list[Any] = []
    over = threading.Event()

    def hear(result: Client, error: Client) -> None:
        pieces.append(error or result.get_response())
        if error or pieces[-1].parameters["triton_final_response"].bool_param:
            over.set()

    grpc_client.start_stream(callback=hear, headers={**auth})
    grpc_client.async_stream_infer("smollm2", [text(triton_grpc, PROMPT)], parameters=GREEDY)
    assert over.wait(60)
    grpc_client.stop_stream()
    found = [triton_grpc.InferResult(piece).as_numpy("text_output")[0].decode() for piece in pieces]
    assert "".join(found) == expected
    assert len(pieces) > 2
    assert pieces[-1].parameters["output_tokens"].int64_param == TOKENS


async def test_the_encoder_answers_every_client_with_the_same_numbers(
    platform: Platform, address: str, auth: dict[str, str]
) -> None:
    """Vectors are bit by bit those of ``/v1/embeddings``, over asyncio's HTTP and gRPC and in JSON."""
    with OpenAI(base_url=f"{platform.url}/v1", api_key=platform.demo_key) as sdk:
        said = sdk.embeddings.create(model="minilm", input=["a cat", "a dog"])
    numbers = np.array([one.embedding for one in said.data], dtype=np.float32)
    async with triton_aio.InferenceServerClient(address) as client:
        found = await client.infer("minilm", [text(triton_aio, "a cat", "a dog")], headers={**auth})
        np.testing.assert_allclose(found.as_numpy("embedding"), numbers, atol=1e-5)
    async with triton_http_aio.InferenceServerClient(platform.url.removeprefix("http://")) as web:
        found = await web.infer("minilm", [text(triton_http, "a cat", "a dog")], headers={**auth})
        np.testing.assert_allclose(found.as_numpy("embedding"), numbers, atol=1e-5)
        told = await web.get_model_metadata("minilm", headers={**auth})
        assert told["outputs"] == [{"name": "embedding", "datatype": "FP32", "shape": [-1, -1]}]


def test_both_clients_hear_why_they_are_refused(http_client: Client, grpc_client: Client, auth: dict[str, str]) -> None:
    """A wrong key, model, output or datatype is said in words over both wires, and leaves the worker alone."""
    wrong = {"authorization": "Bearer wrong"}
    for module, client in ((triton_http, http_client), (triton_grpc, grpc_client)):
        assert client.is_model_ready("minilm", headers={**auth})
        numbers = module.InferInput("text_input", [1], "FP32")
        numbers.set_data_from_numpy(np.zeros(1, dtype=np.float32))
        for inputs, headers, words, more in (
            ([text(module, "x")], wrong, "API key", {}),
            ([text(module, "x")], auth, "no output", {"outputs": [module.InferRequestedOutput("logits")]}),
            ([text(module, "x")], auth, "no parameter", {"parameters": {"maxtokens": 3}}),
            ([numbers], auth, "must be BYTES", {}),
        ):
            with pytest.raises(InferenceServerException, match=words):
                client.infer("smollm2", inputs, headers={**headers}, **more)
        assert client.infer("smollm2", [text(module, "x")], headers={**auth}, parameters={"max_tokens": 1})


def test_a_repeated_call_is_answered_from_its_record(
    platform: Platform, grpc_client: Client, auth: dict[str, str]
) -> None:
    """An idempotency key holds over gRPC, and the ledger has one row for both calls."""
    headers = {**auth, "idempotency-key": "open-inference-1"}
    parameters = {"max_tokens": 8, "temperature": 1.0}
    texts = {
        grpc_client.infer("smollm2", [text(triton_grpc, PROMPT)], headers={**headers}, parameters=parameters)
        .as_numpy("text_output")[0]
        .decode()
        for _ in range(2)
    }
    assert len(texts) == 1


def test_a_request_over_grpc_is_explained(platform: Platform, address: str, auth: dict[str, str]) -> None:
    """The id of the trailers leads to the request's record, as one of an HTTP answer does."""
    request = triton_grpc.service_pb2.ModelInferRequest(model_name="smollm2")
    request.inputs.add(name="text_input", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"hi")
    with grpc.insecure_channel(address) as channel:
        ask: Any = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        _, call = ask.with_call(request.SerializeToString(), metadata=tuple(auth.items()), timeout=60)
    trailers = dict(call.trailing_metadata())
    assert trailers["x-penstock-version"].startswith("smollm2-")
    told = httpx.get(f"{platform.url}/v1/requests/{trailers['x-request-id']}", headers={**auth}).raise_for_status()
    assert (told.json()["outcome"], told.json()["api"]) == ("ok", "/v1/completions")
