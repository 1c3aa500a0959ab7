"""Results of jobs and batches of a running platform hold what a filter released, and nothing more."""

import io
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml
from openai import OpenAI

from tests.integration.conftest import HomeMaker
from tests.support.engines.likeness import COUNTING
from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.stores.redis_server import RedisServer

pytestmark = [pytest.mark.integration, pytest.mark.slow]
MODEL, TENANT = "smollm2", "filtered"
MATCH = ", ".join(map(str, range(14, 24)))
"""What the model counts on to."""
PACK = {
    "id": "count",
    "version": 1,
    "rules": [{"name": "count", "category": "counts", "action": "block", "phrases": [MATCH]}],
}
SHOWN = " " + ", ".join(map(str, range(9, 14))) + ", "
COMPLETION: dict[str, Any] = {"model": MODEL, "prompt": COUNTING, "max_tokens": 72, "temperature": 0}
REFUSED = {**COMPLETION, "prompt": f"{MATCH}, and so on"}
OVER = {"succeeded", "failed", "completed", "incomplete", "cancelled", "expired"}


@pytest.fixture(scope="module")
def platform(
    new_home: HomeMaker, shared_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Platform]:
    """Yield a platform with a worker and a runner."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as redis:
        stores = {"limits_url": redis.url, "answers_url": redis.answers_url}
        settings = {**shared_settings, **stores, "job_runners": "1"}
        with Platform(home=new_home("filtered"), models=MODEL, settings=settings) as running:
            yield running


@pytest.fixture(scope="module")
def key(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a key of a tenant whose pack stands against what the model says."""
    file = tmp_path_factory.mktemp("pack") / "count.yaml"
    file.write_text(yaml.safe_dump(PACK))
    platform.run("tenants", "create", TENANT)
    platform.run("safety", "push", str(file))
    platform.run("safety", "assign", "count", "--tenant", TENANT)
    found = re.search(r"psk_\w+", platform.run("keys", "create", TENANT).stdout)
    assert found is not None
    with platform.http(found[0]) as http:
        until("the pack holds", lambda: http.post("/v1/completions", json=REFUSED).status_code == 400)
    return found[0]


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
