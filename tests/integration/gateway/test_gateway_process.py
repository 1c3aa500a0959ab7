"""The real gateway process with everything else away: it serves from its copies, drains, and hands over."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from penstock.domain.tenancy.tenant import Plan
from tests.support.gateways.process import GatewayProcess, prepare, started
from tests.support.patience import until

pytestmark = pytest.mark.integration

CHAT = {"model": "toy", "messages": [{"role": "user", "content": "a secret word"}], "max_tokens": 20}


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """Yield the address of a stub engine that takes 20 ms a token."""
    command = [sys.executable, "-m", "tests.support.engines.stub", "--step-ms", "20"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["url"]
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture
def gateway(tmp_path: Path, engine: str) -> Iterator[GatewayProcess]:
    """Yield a gateway that serves from its copies."""
    with started(prepare(tmp_path, engine)) as running:
        yield running


def stream(http: httpx.Client) -> list[str]:
    with http.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as answer:
        assert answer.status_code == 200, answer.read()
        return [line for line in answer.iter_lines() if line.startswith("data: ")]


def test_it_serves_with_database_and_controller_away(gateway: GatewayProcess) -> None:
    """Ready, models, a whole answer and a stream come from the last good table and keys."""
    with gateway.http() as http:
        assert http.get("/readyz").json() == {"status": "ready"}
        assert next(card["id"] for card in http.get("/v1/models").json()["data"]) == "toy"
        answer = http.post("/v1/chat/completions", json=CHAT)
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-penstock-version"].startswith("toy@")
        assert stream(http)[-1] == "data: [DONE]"


def test_requests_are_counted_and_logged_without_their_text(gateway: GatewayProcess) -> None:
    """Metrics tell outcomes, tokens and stages; the log has one line per request and nothing of the prompt."""
    with gateway.http() as http:
        http.headers["x-penstock-session"] = "a secret session"
        stream(http)
        http.post("/v1/chat/completions", json={**CHAT, "model": "none"})
        assert http.get("/metrics").status_code == 404
        told = gateway.metrics
    assert 'penstock_requests_total{api="/v1/chat/completions",model="toy",outcome="ok",tenant="acme"} 1.0' in told
    assert 'penstock_refusals_total{code="model_not_found"} 1.0' in told
    assert 'penstock_ttft_seconds_count{model="toy",tier="chat"} 1.0' in told
    lines = [json.loads(line) for line in gateway.log.splitlines()]
    assert [line["outcome"] for line in lines if line["event"] == "request"] == ["ok", "bad_request"]
    assert "secret" not in gateway.log
    assert "secret" not in told


def explained(gateway: GatewayProcess, request: str, key: str) -> httpx.Response:
    return httpx.get(
        f"{gateway.url}/v1/requests/{request}", headers={"authorization": f"Bearer {key}"}, trust_env=False
    )


def test_a_request_is_explained_also_after_a_restart(tmp_path: Path, engine: str) -> None:
    """Answers and refusals are told to the asking key alone, by a gateway that was killed too."""
    home = prepare(tmp_path, engine, Plan(requests_per_min=2))
    with started(home) as gateway:
        with gateway.http() as http:
            answers = [http.post("/v1/chat/completions", json={**CHAT, "user": "a-file-name.pdf"}) for _ in range(4)]
            bad = http.post("/v1/chat/completions", json={**CHAT, "model": "secret-model"})
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        requests = [answer.headers["x-request-id"] for answer in (*answers, bad)]
        first, _, refused, again, strange = [explained(gateway, request, home.key).json() for request in requests]
        time.sleep(0.5)  # a killed process takes a quarter of a second of records along
        gateway.process.kill()
    assert (first["outcome"], first["tenant"], first["output_tokens"]) == ("ok", "acme", 20)
    assert [(one["amount"], one["left"], one["capacity"]) for one in first["drawn"]] == [(1, 1, 2)]
    assert (refused["refusal"]["code"], again["refusal"]["reason"]) == ("rate_limit_exceeded", "tenant_requests")
    assert (strange["outcome"], strange["refusal"]["says"]) == ("bad_request", "")
    assert any("w-stub was chosen" in sentence for sentence in first["says"])
    with started(home) as gateway:
        for request in requests:
            assert explained(gateway, request, home.key).status_code == 200
            unknown, foreign = (
                explained(gateway, "req-unknown", home.neighbour),
                explained(gateway, request, home.neighbour),
            )
            assert (foreign.status_code, foreign.json()["error"]["message"]) == (
                404,
                unknown.json()["error"]["message"],
            )
    kept = b"".join(file.read_bytes() for file in (tmp_path / "records").rglob("*") if file.is_file())
    assert kept
    assert not [word for word in (b"secret", b"a-file-name") if word in kept]


def litter(gateway: GatewayProcess) -> dict[str, int]:
    """Return what the gateway has left to its garbage collector since it was asked last."""
    file = gateway.home.root / "litter.json"
    file.unlink(missing_ok=True)
    gateway.process.send_signal(signal.SIGUSR1)
    until("the gateway tells", file.exists, within_s=5)
    found: dict[str, int] = json.loads(file.read_text())
    return found


def leave(http: httpx.Client) -> None:
    with http.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as answer:
        next(answer.iter_lines())


def leave_early(http: httpx.Client) -> None:
    """Go away while the engine is at it."""
    with suppress(httpx.ReadTimeout):
        http.post("/v1/chat/completions", json=CHAT, timeout=0.1)


ENDS: dict[str, Callable[[httpx.Client], object]] = {
    "stream": stream,
    "unary": lambda http: http.post("/v1/chat/completions", json=CHAT).raise_for_status(),
    "refused": lambda http: http.post("/v1/chat/completions", json={**CHAT, "model": "none"}),
    "malformed": lambda http: http.post("/v1/chat/completions", content=b"{"),
    "left": leave,
    "left early": leave_early,
    "other route": lambda http: http.get("/v1/models").raise_for_status(),
}


@pytest.fixture(scope="module")
def tidy(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[GatewayProcess]:
    """Yield a gateway that tells of its litter."""
    with started(prepare(tmp_path_factory.mktemp("tidy"), engine), program="tests.support.gateways.tidy") as running:
        yield running


@pytest.mark.parametrize("end", ENDS)
def test_a_request_leaves_nothing_to_the_garbage_collector(tidy: GatewayProcess, end: str) -> None:
    """A collection holds up every stream of the process for milliseconds: what ended must go without one."""
    with tidy.http() as http:
        ENDS[end](http)  # what is made once is not meant
        litter(tidy)
        for _ in range(5):
            ENDS[end](http)
        time.sleep(0.1)
        assert litter(tidy) == {}


def test_the_signal_lets_a_stream_end_and_the_process_ends_well(gateway: GatewayProcess) -> None:
    """SIGTERM in the middle of a stream: the stream is whole, then the process is gone with code 0."""
    with gateway.http() as http, http.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as answer:
        lines = answer.iter_lines()
        next(lines)
        gateway.signal()
        assert [line for line in lines if line.startswith("data: ")][-1] == "data: [DONE]"
    assert gateway.process.wait(timeout=10) == 0
    assert not list((gateway.home.root / "run/gateway").glob("*.ready"))


def test_a_successor_takes_over_without_a_refused_connection(tmp_path: Path, engine: str) -> None:
    """While one process follows another on the same socket, every request of a busy client is answered."""
    home = prepare(tmp_path, engine)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.set_inheritable(True)
    stop, failures, answered = threading.Event(), list[str](), [0]

    def ask() -> None:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/models"
        while not stop.is_set():
            try:
                got = httpx.get(url, headers={"authorization": f"Bearer {home.key}"}, timeout=10, trust_env=False)
                answered[0] += 1
                failures.extend([got.text] if got.status_code != 200 else [])
            except httpx.HTTPError as error:
                failures.append(repr(error))

    with started(home, listener) as first:
        asking = threading.Thread(target=ask)
        asking.start()
        with started(home, listener):
            first.signal()
            assert first.process.wait(timeout=10) == 0
            time.sleep(0.3)
            stop.set()
            asking.join()
    listener.close()
    assert failures == []
    assert answered[0] > 10


def test_a_missing_platform_key_is_explained(tmp_path: Path) -> None:
    """Nothing starts without the platform's key, and the screen says what to do."""
    command = [sys.executable, "-m", "penstock.cli", "gateway"]
    done = subprocess.run(
        command,
        env={"PENSTOCK_HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode != 0
    assert "platform key" in done.stdout + done.stderr


@pytest.mark.slow
def test_a_stream_ends_with_the_right_to_it(tmp_path: Path, engine: str) -> None:
    """Finding 17: a key that ends in the middle of an answer ends that answer, in band and within seconds."""
    home = prepare(tmp_path, engine, key_lasts_s=12.0)
    ends_at = time.time() + 12.0
    long = {**CHAT, "stream": True, "max_tokens": 1900}
    with (
        started(home) as gateway,
        gateway.http() as http,
        http.stream("POST", "/v1/chat/completions", json=long) as told,
    ):
        lines = [line for line in told.iter_lines() if line.startswith("data: ")]
    assert told.status_code == 200
    assert json.loads(lines[-1].removeprefix("data: "))["error"]["code"] == "invalid_api_key"
    assert ends_at - 1 < time.time() < ends_at + 10
