"""Single jobs of a caller on a real platform: over HTTP and on the command line, answered by a real engine."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.domain.outcome import Stage
from penstock.telemetry.definitions import Label
from penstock.telemetry.names import GATE_SECONDS
from tests.support.patience import until
from tests.support.platforms.jobs import Jobs, chat
from tests.support.platforms.readings import Fleet, reading
from tests.support.platforms.tenants import key_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

LONG = 400
HOUR_S = 3600.0
FLOOD = 24
"""Callers that submit without a pause: three times as many as one tenant's room."""
LEAST_PART = 0.25
"""Of a stream's time, what its engine takes: whatever else has the machine slows both."""


@pytest.fixture
def http(jobs: Jobs) -> Iterator[httpx.Client]:
    """Yield a client with the demo tenant's key."""
    with jobs.platform.http() as client:
        yield client


def submitted(http: httpx.Client, request: dict[str, object], api: str = "/v1/chat/completions", **more: object) -> Any:  # noqa: ANN401  JSON
    answer = http.post("/v1/jobs", json={"api": api, "request": request, **more})
    assert answer.status_code == 202, answer.text
    return answer.json()


def ended(http: httpx.Client, name: str, *, within_s: float = 120.0) -> Any:  # noqa: ANN401  JSON
    """Return the job once it has ended."""

    def is_over() -> bool:
        return http.get(f"/v1/jobs/{name}").json()["state"] not in {"queued", "running"}

    until("the job has ended", is_over, within_s=within_s, every_s=0.2)
    return http.get(f"/v1/jobs/{name}").json()


def test_the_answer_is_the_apis_own_body(http: httpx.Client) -> None:
    """With version, usage and stages, as a caller that waits gets it."""
    body = chat("What is the capital of Japan?", 8)
    job = ended(http, submitted(http, body)["id"])
    direct = http.post("/v1/chat/completions", json=body).json()
    stored = job["response"]["body"]
    assert (job["state"], job["response"]["status_code"], job["attempt"]) == ("succeeded", 200, 1)
    assert stored["choices"] == direct["choices"]
    assert stored["penstock"]["version"] == job["version"]
    assert stored["penstock"]["stages_ms"].keys() >= {"prefill", "decode"}
    assert job["usage"]["total_tokens"] == stored["usage"]["total_tokens"]
    assert job["response"]["request_id"] == stored["penstock"]["request_id"]


def test_work_waits_for_a_worker_in_its_plans_pools(jobs: Jobs) -> None:
    """API and status say so until a worker is there; live traffic goes on unless it is of class batch."""
    tenant, live = f"pools{time.time_ns():x}", "/v1/chat/completions"
    with jobs.platform.http(key_of(jobs.platform, tenant, batch_pools="spot,nights")) as http:
        job = submitted(http, chat(tokens=2))
        assert http.post(live, json=chat(tokens=2)).status_code == 200
        shown = http.get(f"/v1/jobs/{job['id']}").json()
        assert (shown["state"], shown["reason"], shown["attempt"]) == ("queued", "pool", 0)
        assert f"{tenant} (nights, spot)" in " ".join(jobs.platform.run("status").stdout.split())
        jobs.platform.run("tenants", "plan", tenant, "priority=batch")
        until("it is refused", lambda: http.post(live, json=chat(tokens=2)).status_code == 503, within_s=20)
        assert http.post(live, json=chat(tokens=2)).json()["error"]["reason"] == "pool"
        jobs.platform.run("tenants", "plan", tenant, "batch_pools=nights,on-demand")
        assert ended(http, job["id"])["state"] == "succeeded"


@pytest.mark.parametrize(
    ("api", "request_"),
    [
        ("/v1/messages", {"model": "smollm2", "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/responses", {"model": "smollm2", "max_output_tokens": 4, "input": "hi"}),
        ("/v1/completions", {"model": "smollm2", "max_tokens": 4, "prompt": "One, two,"}),
    ],
)
def test_every_api_answers_later(http: httpx.Client, api: str, request_: dict[str, object]) -> None:
    """In its own shape, which is that of the same request at once."""
    job = ended(http, submitted(http, request_, api)["id"])
    assert job["state"] == "succeeded", job
    assert job["response"]["body"].keys() == http.post(api, json=request_).json().keys()


def test_a_request_of_many_kilobytes_is_a_job_as_well(http: httpx.Client) -> None:
    """Large bodies are read in another process, as those of callers that wait are."""
    job = ended(http, submitted(http, chat("hi" + " " * 20_000, 2))["id"])
    assert job["state"] == "succeeded", job


def test_a_running_job_is_cancelled_over_http(http: httpx.Client) -> None:
    """Its end comes within seconds; a second cancel is answered with the cancelled job."""
    name = submitted(http, chat("Tell all.", LONG))["id"]
    until("it runs", lambda: http.get(f"/v1/jobs/{name}").json()["state"] == "running", within_s=60)
    began = time.monotonic()
    assert http.post(f"/v1/jobs/{name}/cancel").status_code == 200
    assert ended(http, name, within_s=20)["state"] == "cancelled"
    assert time.monotonic() - began < 10.0
    assert http.post(f"/v1/jobs/{name}/cancel").json()["state"] == "cancelled"
    again = http.post(f"/v1/jobs/{name}/replay").json()
    assert (again["state"], again["attempt"]) == ("queued", 0)
    http.post(f"/v1/jobs/{name}/cancel")


def test_a_lost_answer_is_asked_for_again(http: httpx.Client) -> None:
    """Repeated under its key a submit makes one job, which runs and is billed once."""
    body = {"api": "/v1/chat/completions", "request": chat(tokens=2)}
    key = {"idempotency-key": f"k-{time.time_ns()}"}
    names = {http.post("/v1/jobs", json=body, headers=key).json()["id"] for _ in range(3)}
    assert len(names) == 1
    assert ended(http, names.pop())["attempt"] == 1


def test_the_command_line_submits_waits_and_prints(jobs: Jobs, tmp_path: Path) -> None:
    """`penstock jobs submit --wait` prints the body alone; list and show know the job."""
    question = tmp_path / "question.json"
    question.write_text(json.dumps(chat("Say hi.", 4)))
    printed = jobs.platform.run("jobs", "submit", str(question), "--wait", within_s=150)
    assert json.loads(printed.stdout)["object"] == "chat.completion"
    newest = json.loads(jobs.platform.run("jobs", "list", "--json", "--limit", "1").stdout)["jobs"][0]
    shown = jobs.platform.run("jobs", "show", newest["id"]).stdout
    assert f"{newest['id']} is succeeded" in shown
    jobs.platform.run("jobs", "delete", newest["id"])
    assert jobs.platform.run("jobs", "show", newest["id"], check=False).returncode == 1


def engine_s(jobs: Jobs) -> float:
    """Return the seconds that requests were in prefill and decode at the worker."""
    gates, name = Fleet(platform=jobs.platform).gates(), f"{GATE_SECONDS.name}_sum"
    stages: list[dict[str, str]] = [{Label.STAGE: stage} for stage in (Stage.PREFILL, Stage.DECODE)]
    return sum(reading(f"{gate.url}/penstock/metrics", name, stage) for gate in gates for stage in stages)


def streamed(jobs: Jobs, http: httpx.Client) -> float:
    """Return the part of one stream's time that its engine took."""
    before, began = engine_s(jobs), time.monotonic()
    with http.stream("POST", "/v1/chat/completions", json=chat("Tell a story.", 30, stream=True)) as answer:
        tokens = sum(line.startswith('data: {"id"') for line in answer.iter_lines())
    took_s = time.monotonic() - began
    assert tokens >= 30
    return (engine_s(jobs) - before) / took_s


def test_a_flood_of_submits_does_not_stop_a_stream(jobs: Jobs, http: httpx.Client) -> None:
    """Submits beyond the room are refused with the time to wait, none fails otherwise, and a stream goes on."""
    key, ends = key_of(jobs.platform, f"flood{time.time_ns():x}"), threading.Event()
    body = {"api": "/v1/chat/completions", "request": chat(tokens=1), "not_before": time.time() + HOUR_S}
    answers: list[httpx.Response] = []

    def flood() -> None:
        with jobs.platform.http(key) as client:
            while not ends.is_set():
                answers.append(client.post("/v1/jobs", json=body))

    callers = [threading.Thread(target=flood) for _ in range(FLOOD)]
    for caller in callers:
        caller.start()
    try:
        time.sleep(1.0)
        part = streamed(jobs, http)
    finally:
        ends.set()
        for caller in callers:
            caller.join()
    statuses = {answer.status_code for answer in answers}
    refused = [answer for answer in answers if answer.status_code != 202]
    print(f"{part:.0%} of the stream was the engine's; {len(answers)} submits, {len(refused)} refused")  # noqa: T201
    assert 202 in statuses
    assert statuses <= {202, 429, 503}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert part > LEAST_PART
