"""The Open Inference Protocol over REST: what is asked of a model becomes its own API's request, and back."""

import json
import struct
from dataclasses import replace
from typing import Any

import httpx
import pytest

from penstock.connectors.memory.answers import MemoryAnswers
from penstock.domain.clock import SystemClock
from penstock.domain.errors import Overloaded
from penstock.domain.models.tensors import joined
from penstock.domain.outcome import Outcome
from penstock.domain.serving.report import Used
from penstock.domain.serving.request import Api
from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from penstock.gateway.dispatch import wire
from penstock.gateway.openai.idempotent import Once, fingerprint
from tests.support.gateways.oip import CLASSIFIER, EMBEDDER, VECTOR, WRITER, answer, oip_edge
from tests.support.gateways.oip_rest import AUTH, PIXELS, TEXT, get, post

HEAT = {"name": "temperature", "shape": [1], "datatype": "FP32", "data": [0.5]}


async def test_a_model_that_writes_answers_with_text() -> None:
    """Texts, parameters and id go to the completions API, and its answer comes back as tensors."""
    body = {"id": "mine", "inputs": [TEXT], "parameters": {"max_tokens": 7, "temperature": 0.5}}
    response, toy = await post(body)
    asked, told = toy.seen.calls[0].request, response.json()
    assert (asked.api, asked.model, asked.cost.output_tokens) == (Api.COMPLETIONS, "writer", 7)
    assert (asked.body["prompt"], asked.body["temperature"]) == ("hi", 0.5)
    assert (told["model_name"], told["model_version"], told["id"]) == ("writer", "a" * 12, "mine")
    assert told["outputs"][0] == {"name": "text_output", "datatype": "BYTES", "shape": [1], "data": ["<hi>"]}
    assert told["outputs"][1]["data"] == ["length"]
    assert (told["parameters"]["prompt_tokens"], told["parameters"]["output_tokens"]) == (3, 2)
    assert response.headers["x-penstock-version"] == WRITER.id
    assert response.headers["x-request-id"] == asked.id


async def test_a_body_may_name_the_model_of_its_path() -> None:
    """As KServe's own clients write it."""
    response, _ = await post({"inputs": [TEXT], "model_name": "writer"})
    assert response.status_code == 200


async def test_a_batch_of_texts_is_one_request_and_answers_in_its_order() -> None:
    """Several texts become several prompts, and the answers stand as the texts do, in the input's shape."""
    texts = {"name": "text_input", "shape": [3, 1], "datatype": "BYTES", "data": [["a"], ["b"], ["c"]]}
    response, toy = await post({"inputs": [texts], "outputs": [{"name": "text_output"}]})
    (output,) = response.json()["outputs"]
    assert (output["shape"], output["data"]) == ([3, 1], ["<a>", "<b>", "<c>"])
    assert toy.seen.calls[0].request.cost.prompts == 3


async def test_a_model_that_embeds_answers_with_its_exact_numbers() -> None:
    """Vectors come as FP32, bit by bit what the engine made, in JSON and in binary form."""
    output = {"name": "embedding", "parameters": {"binary_data": True}}
    response, toy = await post({"inputs": [TEXT], "outputs": [output]}, "embedder")
    length = int(response.headers["inference-header-content-length"])
    (told,) = json.loads(response.content[:length])["outputs"]
    assert (told["shape"], told["parameters"]) == ([1, 3], {"binary_data_size": 12})
    assert struct.unpack("<3f", response.content[length:]) == VECTOR
    assert (toy.seen.calls[0].request.api, response.headers["x-penstock-version"]) == (Api.EMBEDDINGS, EMBEDDER.id)
    plain, _ = await post({"inputs": [TEXT]}, "embedder")
    assert plain.json()["outputs"][0]["data"] == list(VECTOR)


async def test_tensors_behind_the_json_are_read() -> None:
    """The binary extension's bytes are taken in order, by the sizes that the tensors tell."""
    data, temperature = joined([b"one", b"two"]), struct.pack("<f", 0.5)
    inputs = [
        {"name": "text_input", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": len(data)}},
        {"name": "temperature", "shape": [1], "datatype": "FP32", "parameters": {"binary_data_size": 4}},
    ]
    head = json.dumps({"inputs": inputs}).encode()
    length = {"Inference-Header-Content-Length": str(len(head))}
    response, toy = await post(head + data + temperature, headers=length)
    assert response.json()["outputs"][0]["data"] == ["<one>", "<two>"]
    assert toy.seen.calls[0].request.body["temperature"] == 0.5


async def test_sampling_parameters_come_as_tritons_clients_write_them() -> None:
    """A JSON object in a text, whose numbers may be texts themselves, is as good as parameters."""
    sampling = {"name": "sampling_parameters", "shape": [1], "datatype": "BYTES"}
    given = {**sampling, "data": [json.dumps({"temperature": "0.1", "max_tokens": "4"})]}
    _, toy = await post({"inputs": [TEXT, given]})
    body = toy.seen.calls[0].request.body
    assert (body["temperature"], body["max_tokens"]) == (0.1, 4)


async def test_a_version_is_named_by_its_digest() -> None:
    """A version in the path pins the request to it, and one that is not there is 404 in the protocol's shape."""
    _, toy = await post({"inputs": [TEXT]}, f"/v2/models/writer/versions/{'a' * 12}/infer")
    assert toy.seen.calls[0].request.model == WRITER.id
    response, _ = await post({"inputs": [TEXT]}, "/v2/models/writer/versions/7/infer")
    assert response.status_code == 404
    assert isinstance(response.json()["error"], str)
    assert response.json()["code"] == "model_not_found"


def tensor(**changes: object) -> dict[str, Any]:
    """Return a body with one changed input."""
    return {"inputs": [{**TEXT, **changes}]}


@pytest.mark.parametrize("said", ["str", "np", "raw"])
async def test_a_content_type_that_changes_nothing_is_taken(said: str) -> None:
    """MLServer's clients say of each input, and of the whole request, how it is read: here it is read so anyway."""
    plain, toy = await post({"inputs": [TEXT, HEAT]})
    told = {"content_type": said}
    heat = {**HEAT, "parameters": {"content_type": "np"}}
    first, beside = await post({"inputs": [{**TEXT, "parameters": told}, heat]})
    second, alone = await post({"inputs": [TEXT], "parameters": told})
    assert [one.status_code for one in (plain, first, second)] == [200, 200, 200]
    assert beside.seen.calls[0].request.body == toy.seen.calls[0].request.body
    assert alone.seen.calls[0].request.body == {
        name: value for name, value in toy.seen.calls[0].request.body.items() if name != "temperature"
    }


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (tensor(datatype="INT32"), "text_input"),
        (tensor(datatype="TEXT"), "text_input"),
        (tensor(shape=[2]), "text_input"),
        (tensor(shape=[-1]), "text_input"),
        (tensor(shape=[0], data=[]), "text_input"),
        (tensor(shape=[2, 2], data=["a"] * 4), "text_input"),
        (tensor(shape=[1_000_000], data=["a"] * 10), "text_input"),
        (tensor(data=[["a", "b"], "c"], shape=[3]), "text_input"),
        (tensor(data=[1]), "text_input"),
        (tensor(data="hi"), "text_input"),
        (tensor(parameters={"binary_data_size": 3}), "text_input"),
        (tensor(parameters={"shared_memory_region": "x"}), "text_input"),
        (tensor(name="prompt"), "text_input"),
        *((tensor(parameters={"content_type": said}), "text_input") for said in ("base64", "pd", "datetime", "", 1)),
        ({"inputs": [TEXT], "parameters": {"content_type": "pd"}}, "content_type"),
        ({"inputs": [TEXT, {**HEAT, "parameters": {"content_type": "str"}}]}, "temperature"),
        ({"inputs": [TEXT, HEAT], "parameters": {"content_type": "str"}}, "content_type"),
        (tensor(extra=1), "inputs[0].extra"),
        ({"inputs": [TEXT], "extra": 1}, "extra"),
        ({"inputs": [TEXT], "outputs": [{"name": "text_output", "datatype": "BYTES"}]}, "outputs[0].datatype"),
        ({"inputs": [TEXT], "model_name": "embedder"}, "model_name"),
        ({"inputs": []}, "inputs"),
        ({"inputs": [TEXT, TEXT]}, "inputs"),
        ({"inputs": [TEXT], "outputs": [{"name": "logits"}]}, "outputs"),
        ({"inputs": [TEXT], "parameters": {"maxtokens": 3}}, "maxtokens"),
        ({"inputs": [TEXT], "parameters": {"sequence_id": 3}}, "sequence_id"),
        ({"inputs": [TEXT], "parameters": {"stream": True}}, "stream"),
        ({"inputs": [TEXT], "parameters": {"max_tokens": "many"}}, "max_tokens"),
        ({"inputs": [TEXT], "parameters": {"priority": 2}}, "priority"),
        ({"inputs": [TEXT], "parameters": {"timeout": -1}}, "timeout"),
        ({"inputs": [TEXT], "parameters": {"timeout": 2.5}}, "timeout"),
        ({"inputs": [TEXT], "parameters": {"timeout": True}}, "timeout"),
        ({"inputs": [TEXT], "parameters": {"timeout": 10**13}}, "timeout"),
        ({"inputs": [TEXT], "parameters": {"headers": "x"}}, "headers"),
        ({"inputs": [TEXT], "parameters": {"triton_other": 1}}, "triton_other"),
        ({"inputs": [TEXT], "parameters": {"sampling_parameters": '{"timeout": 5}'}}, "timeout"),
        ({"inputs": [TEXT], "outputs": [{"name": "text_output", "parameters": {"classification": 2}}]}, "text_output"),
        ({"inputs": [TEXT], "outputs": [{"name": "text_output", "parameters": {"top": 2}}]}, "text_output"),
        ({"inputs": [TEXT], "outputs": [{"name": "text_output", "parameters": {"classification": -1}}]}, "text_output"),
        (
            {"inputs": [TEXT], "outputs": [{"name": "text_output", "parameters": {"shared_memory_region": "x"}}]},
            "text_output",
        ),
    ],
)
async def test_what_can_not_be_is_a_400_that_names_the_tensor(body: object, param: str) -> None:
    """Datatypes, shapes, counts and names that contradict one another never reach a worker."""
    response, toy = await post(body)
    assert (response.status_code, response.json()["param"]) == (400, param)
    assert not toy.seen.calls


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b'{"inputs": [NaN]}', {}),
        (b'{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [Infinity]}]}', {}),
        (b"\xff\xfe", {}),
        (b'"text"', {}),
        (b"[" * 100_000, {}),
        (b"{}", {"Inference-Header-Content-Length": "3"}),
        (b"{}", {"Inference-Header-Content-Length": "-1"}),
    ],
)
async def test_a_body_that_is_none_is_a_400(body: bytes, headers: dict[str, str]) -> None:
    """NaN, infinities, bytes that are no UTF-8, endless nesting and wrong lengths are refused in words."""
    response, toy = await post(body, headers=headers)
    assert response.status_code == 400
    assert not toy.seen.calls


async def test_bytes_that_are_no_text_are_a_400() -> None:
    """A model of language is told nothing that is not UTF-8."""
    head = json.dumps({"inputs": [{**TEXT, "parameters": {"binary_data_size": 5}, "data": None}]}).encode()
    head = head.replace(b', "data": null', b"")
    length = {"Inference-Header-Content-Length": str(len(head))}
    response, _ = await post(head + joined([b"\xff"]), headers=length)
    assert (response.status_code, response.json()["param"]) == (400, "text_input")
    assert "UTF-8" in response.json()["error"]


async def test_a_refusal_speaks_the_protocol() -> None:
    """What the corridor refuses is the protocol's error, with our fields and headers beside it."""

    async def refuse(*_: object) -> None:
        raise Overloaded(retry_after_s=2.0)

    response, _ = await post({"inputs": [TEXT]}, serve=refuse)
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    assert response.json()["error"] == "The workers of this model are full."
    assert response.json()["retryable"] is True


async def test_a_stranger_learns_nothing() -> None:
    """All that names models wants a key, and says so in the protocol's shape."""
    for path in ("/v2/models/writer", "/v2/models/writer/ready", "/v2/models/nobodys"):
        response = await get(path, authorization="Bearer wrong")
        assert (response.status_code, response.json()["code"]) == (401, "invalid_api_key")
    response, toy = await post({"inputs": [TEXT]}, "nobodys", {"authorization": "Bearer wrong"})
    assert (response.status_code, toy.seen.calls) == (401, [])


async def test_models_are_described() -> None:
    """Metadata tell versions and tensors, readiness whether a worker could answer, the index all names."""
    told = (await get("/v2/models/embedder")).json()
    assert (told["versions"], told["inputs"][0]["name"], told["outputs"][0]["shape"]) == (
        ["b" * 12],
        "text_input",
        [-1, -1],
    )
    assert (await get("/v2/models/writer/ready")).status_code == 200
    assert (await get(f"/v2/models/writer/versions/{'a' * 12}/ready")).status_code == 200
    assert (await get("/v2/models/embedder/ready")).status_code == 503
    lines, _ = await post({}, "/v2/repository/index")
    assert [(line["name"], line["state"]) for line in lines.json()] == [
        ("writer", "READY"),
        ("embedder", "UNAVAILABLE"),
        ("labels", "READY"),
    ]
    lines, _ = await post({"ready": True}, "/v2/repository/index")
    assert [line["name"] for line in lines.json()] == ["writer", "labels"]


async def test_the_server_tells_that_it_lives() -> None:
    """Name, version, extensions and health need no key."""
    assert (await get("/v2", authorization="")).json()["name"] == "penstock"
    assert (await get("/v2/health/live", authorization="")).json() == {"live": True}
    assert (await get("/v2/health/ready", authorization="")).json() == {"ready": True}
    missing = await get("/v2/models/writer/config")
    assert (missing.status_code, missing.json()["code"]) == (404, "route_not_found")


async def test_a_model_of_tensors_gets_them_as_bytes() -> None:
    """JSON's numbers and an image's bytes go to the worker in binary form, counted by items, and scores come back."""
    response, toy = await post({"inputs": [PIXELS]}, "labels")
    request = toy.seen.calls[0].request
    assert request.tensors is not None
    assert (request.api, request.cost.prompts, request.cost.output_tokens) == (Api.INFER, 2, 0)
    head, data = request.tensors.data[: request.tensors.head_bytes], request.tensors.data[request.tensors.head_bytes :]
    assert data == bytes(range(8))
    assert json.loads(head)["inputs"][0]["parameters"] == {"binary_data_size": 8}
    (output,) = response.json()["outputs"]
    assert (output["shape"], output["data"]) == ([2, 2], [0.0, 1.0, 2.0, 3.0])
    assert wire.body_of(request, CLASSIFIER, "salt") is request.tensors.data
    assert ("inference-header-content-length", str(len(head))) in wire.headers_of(request, "t")


async def test_the_door_is_told_what_tensors_and_images_cost() -> None:
    """A bomb's few bytes cost its pixels, a photograph's megabytes no more than its own, and planes their copying."""

    async def decoding(image: bytes) -> int:
        data = joined([image])
        tensor = {"name": "image", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": len(data)}}
        raw = json.dumps({"inputs": [tensor]}).encode()
        _, toy = await post(raw + data, "labels", {"inference-header-content-length": str(len(raw))})
        return toy.seen.calls[0].request.cost.decode_tokens

    bomb, icon = await decoding(png(6000, 6000)), await decoding(png(32, 32))
    photograph = png(800, 600) + bytes(3 << 20)
    assert bomb >= 6000 * 6000 // 1024
    assert icon < 30
    assert 469 < await decoding(photograph) < 700
    _, toy = await post({"inputs": [PIXELS]}, "labels")
    assert toy.seen.calls[0].request.cost.work_tokens < 30


def png(width: int, height: int) -> bytes:
    """Return the head of an image."""
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x02\0\0\0"


async def test_a_replay_tells_what_the_first_answer_told() -> None:
    """A repeated answer of tensors had lost what was billed for the first one."""

    async def counted(call: Call, reply: Reply) -> Outcome:
        call.attempts.used = Used(prompt_tokens=18, prompts=2)
        await answer(call, reply)
        return Outcome.OK

    app, toy = oip_edge(counted)
    app = replace(app, corridor=Once(toy, MemoryAnswers(SystemClock())))
    headers = {**AUTH, "idempotency-key": "k"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://g") as http:
        answers = [await http.post("/v2/models/labels/infer", json={"inputs": [PIXELS]}, headers=headers) for _ in "ab"]
    assert [one.headers.get("idempotency-replayed") for one in answers] == [None, "true"]
    for one in answers:
        told = one.json()["parameters"]
        assert (told["prompt_tokens"], told["output_tokens"], told["items"]) == (18, 0, 2)


async def test_the_same_key_with_other_tensors_is_another_request() -> None:
    """What is compared under an idempotency key holds the tensors' digest."""
    prints = set()
    for data in (list(range(8)), [9] * 8):
        _, toy = await post({"inputs": [{**PIXELS, "data": data}]}, "labels", {"idempotency-key": "k"})
        prints.add(fingerprint(toy.seen.calls[0].request))
    assert len(prints) == 2


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"datatype": "INT8"}, "pixels"),
        ({"shape": [2, 4]}, "pixels"),
        ({"shape": [0, 2, 2], "data": []}, "pixels"),
        ({"data": [256] * 8}, "pixels"),
        ({"name": "voxels"}, "voxels"),
    ],
)
async def test_tensors_of_another_model_are_a_400(changes: dict[str, object], param: str) -> None:
    """What the version's description does not take never waits for a device."""
    response, toy = await post({"inputs": [{**PIXELS, **changes}]}, "labels")
    assert (response.status_code, response.json()["param"], toy.seen.calls) == (400, param, [])


async def test_json_without_end_is_sent_away_with_the_remedy() -> None:
    """Numbers beyond the bound are to come in binary form."""
    response, _ = await post(b" " * ((4 << 20) + 1), "labels")
    assert (response.status_code, "binary" in response.json()["error"]) == (413, True)
