"""A secret in every field of every API, live and deferred, is in no sink of a real platform; then it is deleted."""

import base64
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest
from grpc import StatusCode

from penstock.domain.serving.request import JSON_APIS, Api
from penstock.gateway.openai.verdicts import ANY, TABLE
from tests.integration.conftest import HomeMaker
from tests.support.failures.planted import LABEL, LABELS, SECRET, Bucket, Sinks, bodies, line, open_files
from tests.support.failures.planted_calls import OPERATED, PERSON, over_admin, over_grpc, over_rest
from tests.support.monitoring.otlp import Collector, collector
from tests.support.patience import until
from tests.support.platforms.jobs import MODEL, Jobs
from tests.support.platforms.local import Platform
from tests.support.stores.redis_server import RedisServer
from tests.support.stores.s3_server import new_bucket, s3_server

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ENDED = {"succeeded", "failed", "cancelled", "completed", "expired", "incomplete"}
ACTED = re.compile(r"[a-z_]+\.[a-z_]+|audit/.*\.jsonl|run/gateway/keys\.json")
EVENTS = {"url": f"http://127.0.0.1:9/{LABEL}", "events": ["job.succeeded"], "metadata": None}


@pytest.fixture(scope="module")
def spans() -> Iterator[Collector]:
    with collector() as made:
        yield made


@pytest.fixture(scope="module")
def planted(
    new_home: HomeMaker, shared_settings: dict[str, str], spans: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Platform, Sinks]]:
    """Yield a platform at its most talkative, whose APIs have all been asked with the secret."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as redis, s3_server() as s3:
        settings = {
            **shared_settings,
            "job_runners": "1",
            "limits_url": redis.url,
            "answers_url": redis.answers_url,
            "webhook_networks": "127.0.0.0/8",
            "log_level": "debug",
            "otlp_endpoint": spans.url,
            "trace_ratio": "1",
            "payloads_url": f"s3://{(bucket := new_bucket(s3))}/planted",
            "payloads_endpoint": s3,
        }
        with Platform(home=new_home("planted"), models="smollm2", settings=settings) as platform:
            with platform.http(timeout_s=120.0) as http:
                _call_all(platform, http)  # first: its deletions take all idempotent answers, whatever their scope
                _ask_all(http)
                _defer_all(http)
            yield platform, Sinks(platform.home, Jobs(platform).dsn, redis.url, Bucket(s3, bucket))


def _ask_all(http: httpx.Client) -> None:
    """Ask each API with the secret in each field; and in headers, query and path.

    Not in ``x-request-id``: it names the request in the ledger, logs and spans.
    """
    with ThreadPoolExecutor(4) as threads:
        asked = [(api, body) for api in JSON_APIS for body in bodies(api, MODEL)]
        answers = list(threads.map(lambda one: http.post(one[0].value, json=one[1]), asked))
    assert {answer.status_code for answer in answers} <= {200, 400, 404, 413, 422}
    assert sum(answer.status_code == 200 for answer in answers) > 20
    body = {"model": MODEL, "messages": [{"role": "user", "content": SECRET}], "max_tokens": 4}
    for headers in ({"idempotency-key": SECRET}, {"traceparent": SECRET}, {"user-agent": SECRET}):
        for one in (body, {**body, "stream": True}, {**body, "max_tokens": SECRET}):
            http.post(Api.CHAT.value, json=one, headers=headers)
    http.post(Api.CHAT.value, content=b'{"model": ' + SECRET.encode())
    http.get(f"/v1/models/{SECRET}")
    http.get("/v1/files", params={"after": SECRET})


def _defer_all(http: httpx.Client) -> None:
    """Submit a job, a batch and responses, and wait for their ends."""
    labels = {"metadata": {"name": LABEL}}
    chat = {"messages": [{"role": "user", "content": SECRET}], "max_tokens": 4, "user": SECRET, "model": MODEL}
    http.post("/v1/webhooks", json={name: value for name, value in EVENTS.items() if value}).raise_for_status()
    made = [
        http.post(
            "/v1/jobs", json={"api": Api.CHAT, "request": one, **labels}, headers={"idempotency-key": SECRET + key}
        )
        for key, one in (("a", chat), ("b", {**chat, "stop": SECRET}))
    ]
    whole, broken = line(MODEL), line(MODEL) + b"\n{" + SECRET.encode()
    for content in (whole, broken):
        file = http.post("/v1/files", files={"file": (f"{LABEL}.jsonl", content)}, data={"purpose": "batch"})
        batch = {"input_file_id": file.raise_for_status().json()["id"], "endpoint": Api.CHAT, **labels}
        made.append(http.post("/v1/batches", json={**batch, "completion_window": "24h"}))
    addresses = [f"{one.request.url.path}/{one.raise_for_status().json()['id']}" for one in made]
    asked = {
        "model": MODEL,
        "input": SECRET,
        "instructions": SECRET,
        "max_output_tokens": 4,
        "metadata": {SECRET: SECRET},
    }
    for more in ({}, {"background": True}, {"background": True, "stream": True}, {"user": SECRET}):
        answer = http.post(Api.RESPONSES.value, json={**asked, **more}).raise_for_status()
        if "stream" not in more:
            addresses.append(f"/v1/responses/{answer.json()['id']}")
    for address in addresses:
        until(address, partial(_has_ended, http, address), within_s=120, every_s=0.5)


def _call_all(platform: Platform, http: httpx.Client) -> None:
    """Ask the Open Inference Protocol over both wires, and the operators' API."""
    over_wire = over_grpc(platform, MODEL)
    assert over_wire.keys().isdisjoint({StatusCode.INTERNAL, StatusCode.UNKNOWN, StatusCode.DEADLINE_EXCEEDED})
    assert over_wire[StatusCode.OK] > 3, over_wire
    told = over_rest(http, MODEL)
    assert (told[200] > 1, max(told) < 500) == (True, True), told
    acted = over_admin(platform)
    assert (min(acted) < 300, max(acted) < 500, sum(acted.values()) > 200) == (True, True, True), acted


def _has_ended(http: httpx.Client, address: str) -> bool:
    told = http.get(address).json()
    return (told.get("state") or told.get("status")) in ENDED


def test_the_search_finds_what_is_there(planted: tuple[Platform, Sinks]) -> None:
    """Planted files are found, plain, in hexadecimal and in Base64."""
    platform, sinks = planted
    raw = SECRET.encode()
    for number, one in enumerate((raw, raw.hex().encode(), base64.b64encode(b"a prefix " + raw + b"and more"))):
        (platform.home / "logs" / f"planted{number}").write_bytes(one)
    try:
        assert sinks.found(SECRET) == ["logs/planted0", "logs/planted1", "logs/planted2"]
    finally:
        for path in (platform.home / "logs").glob("planted?"):
            path.unlink()


def test_every_field_was_asked() -> None:
    """No API's field is left out."""
    for api in JSON_APIS:
        asked = set[str]()
        for body in bodies(api, MODEL):
            asked |= {name for name, value in body.items() if SECRET in json.dumps(value)}
        assert asked >= set(TABLE[api].kinds[ANY].fields), api


def test_no_sink_has_the_secret(planted: tuple[Platform, Sinks], spans: Collector) -> None:
    """Not the database's rows, files or log, Redis, payloads, spool, logs, records, spans, metrics, or open files."""
    platform, sinks = planted
    until("spans are sent", lambda: bool(spans.raw), within_s=30)
    assert sinks.bucket.names()
    assert sinks.found(SECRET) == []
    assert sinks.in_database_files(SECRET) == []
    assert set(sinks.found(LABEL)) == LABELS
    pages = [httpx.get(path.read_text().strip()).content for path in (platform.home / "run/metrics").iterdir()]
    pids = [one.pid for one in platform.survivors()]
    for raw in (*pages, *spans.raw, *open_files(pids)):
        assert not any(one.encode() in raw for one in (SECRET, PERSON))


def test_what_operators_name_is_in_rows_of_their_acts_alone(planted: tuple[Platform, Sinks]) -> None:
    """And in their shipped segments, and in a gateway's copy of keys; the user of a deletion is nowhere."""
    _, sinks = planted
    found = sinks.found(OPERATED)
    assert (sinks.found(PERSON), [place for place in found if not ACTED.fullmatch(place)]) == ([], [])
    assert {"audit_event.detail", "privacy_deletion.request"} <= {*found}


def test_no_process_writes_a_core(planted: tuple[Platform, Sinks]) -> None:
    """Gateway, controller, runner, worker, engine, database: none of them may leave its memory on a disk."""
    platform, _ = planted
    limits = {}
    for process in platform.survivors():
        told = Path(f"/proc/{process.pid}/limits").read_text().splitlines()
        limits[process.pid] = next(one.split()[4:6] for one in told if one.startswith("Max core file size"))
    assert len(limits) > 5
    assert {tuple(one) for one in limits.values()} == {("0", "0")}


def test_it_is_deleted_with_a_receipt(planted: tuple[Platform, Sinks]) -> None:
    """One command: jobs, batch, files, responses and answers go, labels with them, and the receipt says so."""
    platform, sinks = planted
    began = time.monotonic()
    told = json.loads(platform.run("privacy", "delete", "demo", "--everything", "--json", within_s=150).stdout)
    assert (told["state"], time.monotonic() - began < 60) == ("done", True), told
    counts = json.loads(told["receipt"])["counts"]
    assert counts["keys"] >= 1
    named = ("jobs", "batches", "files", "responses", "answers", "bytes")
    assert [name for name in named if not counts[name]] == []
    assert set(sinks.found(LABEL)) <= {"webhook_endpoint.url"}
    assert sinks.bucket.names() == []
    with platform.http() as http:
        assert (http.get("/v1/jobs").json()["data"], http.get("/v1/files").json()["data"]) == ([], [])
        assert http.get("/v1/batches").json()["data"] == []
