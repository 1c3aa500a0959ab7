"""Each way out of a running platform has what a filter released, and nothing more: jobs, batches, stored responses,
repeats under a key, tensors over HTTP and gRPC, and streams whose worker dies inside a match.
"""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import yaml
from openai import OpenAI
from tritonclient.utils import InferenceServerException

from tests.integration.conftest import PlatformMaker
from tests.support.clients.sockets import Stream
from tests.support.engines.likeness import COUNTING
from tests.support.failures.deaths import engine_dies, the_busy_one
from tests.support.patience import until
from tests.support.platforms.jobs import Jobs
from tests.support.platforms.local import Platform
from tests.support.platforms.readings import Fleet
from tests.support.platforms.tenants import key_of

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning"),
]
MODEL, TENANT = "smollm2", "filtered"
MATCH = ", ".join(map(str, range(14, 24)))
"""What the model counts on to: long enough to lose its worker inside."""
PACK = {
    "id": "count",
    "version": 1,
    "rules": [{"name": "count", "category": "counts", "action": "block", "phrases": [MATCH]}],
}
SHOWN = " " + ", ".join(map(str, range(9, 14))) + ", "
COMPLETION: dict[str, Any] = {"model": MODEL, "prompt": COUNTING, "max_tokens": 72, "temperature": 0}
REFUSED = {**COMPLETION, "prompt": f"{MATCH}, and so on"}
NUMBERS = {"type": "string", "pattern": f"^{MATCH.replace('15', '1[5]')}$"}
"""Forces the match; the prompt is judged as well, so it is none."""
SCHEMA = {"type": "object", "properties": {"n": NUMBERS}, "required": ["n"], "additionalProperties": False}
FORM: dict[str, Any] = {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}}
OVER = {"succeeded", "failed", "completed", "incomplete", "cancelled", "expired"}
Client = Any
"""NVIDIA's clients have no types."""


@pytest.fixture(scope="module")
def platform(jobs: Jobs) -> Platform:
    return jobs.platform


@pytest.fixture(scope="module")
def key(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a key of a tenant whose pack stands against what the model says."""
    return filtered(platform, tmp_path_factory.mktemp("pack"))


def filtered(platform: Platform, folder: Path) -> str:
    key, file = key_of(platform, TENANT), folder / "count.yaml"
    file.write_text(yaml.safe_dump(PACK))
    platform.run("safety", "push", str(file))
    platform.run("safety", "assign", "count", "--tenant", TENANT)
    with platform.http(key) as http:
        until("the pack holds", lambda: http.post("/v1/completions", json=REFUSED).status_code == 400)
    return key


@pytest.fixture
def http(platform: Platform, key: str) -> Iterator[httpx.Client]:
    with platform.http(key, timeout_s=240) as client:
        yield client


@pytest.fixture
def sdk(platform: Platform, key: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{platform.url}/v1", api_key=key, max_retries=0, timeout=240) as client:
        yield client


def of(completion: dict[str, Any]) -> tuple[str, str]:
    (choice,) = completion["choices"]
    return choice["text"], choice["finish_reason"]


def test_without_its_pack_the_model_says_it(platform: Platform) -> None:
    """What the others look for is there to be found."""
    with platform.http(timeout_s=240) as http:
        assert MATCH in http.post("/v1/completions", json=COMPLETION).raise_for_status().json()["choices"][0]["text"]


def test_a_job_and_a_batch_hold_what_was_released(http: httpx.Client, sdk: OpenAI) -> None:
    """Results end before the match, and a prompt that is refused is its job's error."""
    job = http.post("/v1/jobs", json={"api": "/v1/completions", "request": COMPLETION}).raise_for_status().json()
    lines = [
        json.dumps({"custom_id": name, "method": "POST", "url": "/v1/completions", "body": body})
        for name, body in (("a", COMPLETION), ("b", REFUSED))
    ]
    file = sdk.files.create(file=("in.jsonl", io.BytesIO("\n".join(lines).encode())), purpose="batch")
    batch = sdk.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="24h")
    path = f"/v1/jobs/{job['id']}"
    until("the job ends", lambda: http.get(path).json()["state"] in OVER, within_s=120, every_s=0.5)
    assert of(http.get(path).json()["response"]["body"]) == (SHOWN, "content_filter")
    until("the batch ends", lambda: sdk.batches.retrieve(batch.id).status in OVER, within_s=120, every_s=0.5)
    ended = sdk.batches.retrieve(batch.id)
    (result,), (error,) = (
        [json.loads(line) for line in sdk.files.content(name or "").text.splitlines()]
        for name in (ended.output_file_id, ended.error_file_id)
    )
    assert of(result["response"]["body"]) == (SHOWN, "content_filter")
    assert (error["custom_id"], error["response"]["body"]["error"]["code"]) == ("b", "content_filter")


@pytest.mark.parametrize("more", [{}, {"background": True}, {"background": True, "stream": True}, {"stream": True}])
def test_a_stored_response_holds_what_was_released(sdk: OpenAI, http: httpx.Client, more: dict[str, bool]) -> None:
    """As it was answered, retrieved and streamed again, it ends before the match."""
    asked: Any = {"model": MODEL, "input": "Go.", "temperature": 0, "max_output_tokens": 72}
    answer = http.post("/v1/responses", json={**asked, "text": FORM, **more}).raise_for_status()
    name = next(iter(re.findall(r'"id": ?"(resp_[\w.-]+)"', answer.text)))
    until("it ends", lambda: http.get(f"/v1/responses/{name}").json()["status"] in OVER, within_s=120, every_s=0.3)
    kept = http.get(f"/v1/responses/{name}").json()
    assert (kept["status"], kept["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})
    seen = [answer.text, json.dumps(kept)]
    if more.get("background") and more.get("stream"):
        seen.append(http.get(f"/v1/responses/{name}", params={"stream": True}).text)
    assert not any(character.isdigit() for character in "".join(map(said, seen))), seen


def said(raw: str) -> str:
    """Return the texts of a response, or of its events."""
    bodies = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {")] or [json.loads(raw)]
    deltas = [one["delta"] for one in bodies if one.get("type") == "response.output_text.delta"]
    output = bodies[-1].get("response", bodies[-1])["output"]
    return "".join([*deltas, *(part["text"] for item in output for part in item["content"])])


@pytest.mark.parametrize("stream", [True, False])
def test_a_repeat_has_what_was_released(http: httpx.Client, stream: bool) -> None:
    """The answer under an idempotency key is the one that its first caller saw."""
    headers, body = {"idempotency-key": f"filtered-{stream}"}, {**COMPLETION, "stream": stream}
    first, again = (http.post("/v1/completions", json=body, headers=headers).raise_for_status() for _ in range(2))
    assert "idempotency-replayed" in again.headers
    assert first.text == again.text
    assert MATCH[:2] not in "".join(re.findall(r'"text": ?"([^"]*)"', first.text))
    assert "content_filter" in first.text


def test_texts_of_tensors_are_filtered(platform: Platform, key: str) -> None:
    """Over the Open Inference Protocol, HTTP, gRPC and its streams, prompts and answers alike."""
    address = (Path(platform.home) / "run/gateway.grpc.addr").read_text()
    auth, parameters = {"authorization": f"Bearer {key}"}, {"max_tokens": 72, "temperature": 0.0}
    with (
        triton_http.InferenceServerClient(platform.url.removeprefix("http://"), network_timeout=240) as web,
        triton_grpc.InferenceServerClient(address) as rpc,
    ):
        for module, client in ((triton_http, web), (triton_grpc, rpc)):
            found = client.infer(MODEL, [_text(module, COUNTING)], headers={**auth}, parameters=parameters)
            assert found.as_numpy("text_output").tolist() == [SHOWN.encode()]
            with pytest.raises(InferenceServerException, match="not allowed"):
                client.infer(MODEL, [_text(module, REFUSED["prompt"])], headers={**auth})
        heard = Queue[Any]()
        rpc.start_stream(callback=lambda result, error: heard.put(error or result.get_response()), headers={**auth})
        rpc.async_stream_infer(MODEL, [_text(triton_grpc, COUNTING)], parameters=parameters)
        pieces = [heard.get(timeout=240)]
        while not pieces[-1].parameters["triton_final_response"].bool_param:
            pieces.append(heard.get(timeout=240))
        texts = [triton_grpc.InferResult(piece).as_numpy("text_output")[0].decode() for piece in pieces]
        assert "".join(texts) == SHOWN
        rpc.async_stream_infer(MODEL, [_text(triton_grpc, REFUSED["prompt"])], parameters=parameters)
        assert "not allowed" in str(heard.get(timeout=240))
        rpc.stop_stream()


def _text(module: Client, text: str) -> Client:
    made = module.InferInput("text_input", [1], "BYTES")
    made.set_data_from_numpy(np.array([text.encode()], dtype=np.object_))
    return made


@pytest.mark.drill
def test_a_worker_that_dies_inside_a_match_leaks_none_of_it(start_platform: PlatformMaker, tmp_path: Path) -> None:
    """Another worker goes on, the match is found over the seam, and the caller saw nothing of it."""
    platform = start_platform(workers=2)
    fleet, key = Fleet(platform=platform), filtered(platform, tmp_path)
    fleet.until_ready(2)
    fleet.until_idle()
    stream = Stream(url=platform.url, key=key, path="/v1/completions", body=COMPLETION).start()

    def text() -> str:
        return "".join(event["choices"][0]["text"] for event in stream.events if event.get("choices"))

    until("the match has begun", lambda: text() == SHOWN.rstrip(), within_s=60, every_s=0.001)
    engine_dies(the_busy_one(fleet))
    stream.join(240)
    finishes = [one["finish_reason"] for event in stream.events for one in event.get("choices", [])]
    assert stream.is_whole, stream.story
    assert (text(), finishes[-1]) == (SHOWN, "content_filter")
    name = stream.headers["x-request-id"]
    with platform.http(key) as http:
        until("its record is there", lambda: http.get(f"/v1/requests/{name}").status_code == httpx.codes.OK)
        told = http.get(f"/v1/requests/{name}").json()
    assert (told["outcome"], len(told["continued_s"])) == ("filtered", 1)
