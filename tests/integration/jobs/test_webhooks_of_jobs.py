"""Events of real jobs on a running platform: told by runners, verified by the official SDK, also as runners die."""

import json
from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.support.patience import until
from tests.support.platforms.jobs import Jobs, chat
from tests.support.webhooks.held_receiver import HeldReceiver, about, held_receiver

pytestmark = pytest.mark.integration


@pytest.fixture
def receiver() -> Iterator[HeldReceiver]:
    with held_receiver() as server:
        yield server


def made(jobs: Jobs, receiver: HeldReceiver) -> tuple[str, str]:
    """Make an endpoint for jobs that name it; return its id and its secret."""
    with jobs.platform.http() as http:
        answer = http.post("/v1/webhooks", json={"url": receiver.url, "events": []})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"], answer.json()["secret"]


def test_a_job_tells_the_endpoint_that_it_names(jobs: Jobs, receiver: HeldReceiver) -> None:
    """Once, when it has ended, with its id; a job that names none tells nothing."""
    endpoint, secret = made(jobs, receiver)
    jobs.wait(jobs.submit(chat()))
    (name,) = jobs.submit(chat(), webhook=endpoint)
    until("the event comes", lambda: bool(receiver.came))
    (headers, body), *more = receiver.came
    event = OpenAI(api_key="none", webhook_secret=secret).webhooks.unwrap(body.decode(), headers)
    assert json.loads(body)["type"] == "job.succeeded"
    assert json.loads(body)["data"] == {"id": name}
    assert (event.id, more) == (headers["webhook-id"], [])


def test_a_runner_that_is_killed_while_it_delivers(jobs: Jobs, receiver: HeldReceiver) -> None:
    """All events come, each under one id, from the runners that follow."""
    endpoint, _ = made(jobs, receiver)
    receiver.opened.clear()
    names = jobs.submit(*(chat(tokens=4) for _ in range(4)), webhook=endpoint)
    until("an attempt is open", lambda: bool(receiver.came))
    jobs.platform.kill("runner")
    receiver.opened.set()
    until("all events come", lambda: {about(body) for _, body in receiver.came} == set(names), within_s=60.0)
    ids = {(about(body), headers["webhook-id"]) for headers, body in receiver.came}
    assert len(ids) == len(names)
