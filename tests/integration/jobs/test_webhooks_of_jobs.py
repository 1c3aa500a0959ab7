"""Events of real jobs on a running platform: told by runners, verified by the official SDK, also as runners die."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from openai import OpenAI

from tests.support.patience import until
from tests.support.platforms.jobs import Jobs, chat

pytestmark = pytest.mark.integration


class Receiver(ThreadingHTTPServer):
    """Keeps what it was sent, and answers nothing while it is closed."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.came: list[tuple[dict[str, str], bytes]] = []
        self.opened = threading.Event()
        self.opened.set()


class Handler(BaseHTTPRequestHandler):
    """Answers 204."""

    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.came.append((dict(self.headers.items()), body))
        self.server.opened.wait(30)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Serve on loopback, which this platform's settings allow."""
    server = Receiver()
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield server
    server.opened.set()
    server.shutdown()
    serving.join()
    server.server_close()


def made(jobs: Jobs, receiver: Receiver) -> tuple[str, str]:
    """Make an endpoint for jobs that name it; return its id and its secret."""
    url = f"http://127.0.0.1:{receiver.server_address[1]}/hooks"
    with jobs.platform.http() as http:
        answer = http.post("/v1/webhooks", json={"url": url, "events": []})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"], answer.json()["secret"]


def test_a_job_tells_the_endpoint_that_it_names(jobs: Jobs, receiver: Receiver) -> None:
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


def test_a_runner_that_is_killed_while_it_delivers(jobs: Jobs, receiver: Receiver) -> None:
    """All events come, each under one id, from the runners that follow."""
    endpoint, _ = made(jobs, receiver)
    receiver.opened.clear()
    names = jobs.submit(*(chat(tokens=4) for _ in range(4)), webhook=endpoint)
    until("an attempt is open", lambda: bool(receiver.came))
    jobs.platform.kill("runner")
    receiver.opened.set()
    until("all events come", lambda: {told(body) for _, body in receiver.came} == set(names), within_s=60.0)
    ids = {(told(body), headers["webhook-id"]) for headers, body in receiver.came}
    assert len(ids) == len(names)


def told(body: bytes) -> str:
    return str(json.loads(body)["data"]["id"])
