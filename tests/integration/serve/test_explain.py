"""A request's life and the controller's decisions, told by a running platform with a real engine."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.platforms.local import Platform

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
MANY = 40
"""More than an engine decodes at once: some wait in its queue, for less than its timeout on a busy machine, too."""
TOKENS = 12


def test_a_request_that_waited_is_told_with_who_went_before_it(platform: Platform) -> None:
    """The records of a crowd have what the gate predicted and what they waited, who went in, whom they shared with."""
    body = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": "Count."}],
        "max_tokens": TOKENS,
        "ignore_eos": True,
    }

    def ask(_: int) -> str:
        with platform.http() as http:
            answer = http.post("/v1/chat/completions", json=body).raise_for_status()
            return str(answer.headers["x-request-id"])

    with ThreadPoolExecutor(MANY) as callers, platform.http(platform.admin_key) as operator:
        found = [operator.get(f"/v1/requests/{request}").json() for request in callers.map(ask, range(MANY))]
    doors = [one["attempts"][-1]["door"] for one in found]
    assert None not in doors
    waited = [door for door in doors if door["waited_s"] > 0]
    assert waited
    assert any(door["predicted_s"] > 0 and door["ahead"] for door in waited)
    assert {ahead["others"] for door in waited for ahead in door["ahead"]} == {0}
    assert all(one["output_tokens"] == TOKENS and one["exact"] for one in found)
    assert all(one["steps"] == TOKENS <= one["beside"] for one in found)
    assert max(one["beside"] for one in found) > 2 * TOKENS
    told = platform.run("explain", str(found[-1]["id"])).stdout
    assert "steps of the engine, shared with" in told
    assert "decode" in told


def test_the_controllers_decisions_are_told(platform: Platform) -> None:
    """Why each worker was started, and why traffic goes to it, stands in the list with signal and objective."""
    lines = platform.run("explain", "--decisions", "--json", "--limit", "1000").stdout.splitlines()
    decisions = [json.loads(line) for line in lines]
    started = [one for one in decisions if one["what"] == "start"]
    assert {one["signal"] for one in started} <= {"workers_counted", "workers_outdated"}
    assert all("deployed" in one["objective"] for one in started)
    assert any(one["what"] == "send" and one["value"] == "ready" for one in decisions)
    assert "workers_counted" in platform.run("explain", "--decisions").stdout


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}),
        ("/v1/completions", {"prompt": "Hi", "max_tokens": 4}),
        ("/v1/responses", {"input": "Hi", "max_output_tokens": 4}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}),
    ],
)
def test_an_answers_own_id_leads_to_its_record(platform: Platform, path: str, body: dict[str, object]) -> None:
    """Over each API the id in the body is one to ask by; a replay's own id names the request that it repeated."""
    with platform.http() as http:
        first, second = (
            http.post(
                path, json={"model": "smollm2", **body}, headers={"idempotency-key": f"explain{path.replace('/', '-')}"}
            )
            for _ in range(2)
        )
        request = first.headers["x-request-id"]
        assert http.get(f"/v1/requests/{first.json()['id']}").json()["id"] == request
        replay = http.get(f"/v1/requests/{second.headers['x-request-id']}").json()
    assert (second.headers["idempotency-replayed"], replay["replay_of"]) == ("true", request)
    assert request in replay["says"][-1]
