"""A platform with processes that die or are replaced while it serves: its callers' view, and each successor.

Each drill here has a twin with two workers, which ``make test`` runs: ``integration/faults/test_outages.py``.
"""

import concurrent.futures
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from penstock.telemetry.log_files import LogBounds
from tests.integration.conftest import HomeMaker, PlatformMaker
from tests.support.patience import until
from tests.support.platforms.local import Platform

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def own(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[Platform]:
    """Yield a platform with one chat worker, free to be killed."""
    with Platform(home=new_home("supervised"), models="smollm2", settings=shared_settings) as running:
        yield running


def ask(platform: Platform, *, max_tokens: int = 8) -> httpx.Response:
    body = {"model": "smollm2", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": max_tokens}
    with platform.http() as http:
        return http.post("/v1/chat/completions", json=body)


def stream_lines(platform: Platform, *, max_tokens: int, on_first: Callable[[], object]) -> list[str]:
    """Stream an answer of exactly this number of tokens; do something at the first one."""
    body = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": "Tell me a long story."}],
        "max_tokens": max_tokens,
        "ignore_eos": True,
        "stream": True,
    }
    lines: list[str] = []
    with platform.http() as http, http.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.startswith("data: "):
                if not lines:
                    on_first()
                lines.append(line)
    return lines


def revived(platform: Platform, name: str, before: list[int]) -> Callable[[], bool]:
    return lambda: bool(now := platform.pids(name)) and 0 not in now and not set(now) & set(before)


def test_a_grown_log_of_a_gateway_is_cut_while_it_serves(own: Platform) -> None:
    """The log with a line for each request is cut beyond its bound, and the gateway writes on at its beginning."""
    log = own.home / "logs/gateway-1.log"
    with log.open("ab") as grown:
        grown.write(b"x" * LogBounds().most_bytes)
    until("it was cut", lambda: log.stat().st_size < LogBounds().most_bytes, within_s=20)
    answered = ask(own).headers["x-request-id"]
    until("it is written", lambda: answered in log.read_text(), within_s=10)
    log.with_name(f"{log.name}.1").unlink()


@pytest.mark.slow
def test_another_home_is_another_platform(own: Platform, start_platform: PlatformMaker) -> None:
    """Another home and port make another platform: its own keys, its own processes."""
    other = start_platform("other", workers=0)
    assert other.url != own.url
    assert ask(own).status_code == 200
    for one, stranger in ((own, other), (other, own)):
        with one.http() as http, one.http(stranger.demo_key) as strange:
            assert [http.get("/v1/models").status_code, strange.get("/v1/models").status_code] == [200, 401]
    assert other.stop() == 0
    assert ask(own).status_code == 200


@pytest.mark.drill
@pytest.mark.parametrize("name", ["controller", "postgres"])
def test_serving_goes_on_while_a_process_behind_it_is_dead(own: Platform, name: str) -> None:
    """A stream that runs and a request that comes are answered although the process is gone; then it is back."""
    killed: list[int] = []
    lines = stream_lines(own, max_tokens=60, on_first=lambda: killed.extend(own.kill(name)))
    assert lines[-1] == "data: [DONE]"
    assert ask(own).status_code == 200
    until(f"the {name} is back", revived(own, name, killed), within_s=20)
    until("operators are served again", lambda: own.run("status", check=False).returncode == 0, within_s=10)


def test_a_killed_gateway_comes_back_on_the_same_socket(own: Platform) -> None:
    """New connections wait in the kernel for the gateway's successor: none is refused."""
    killed = own.kill("gateway")
    assert ask(own).status_code == 200
    until("the state names the successor", revived(own, "gateway", killed), within_s=10)


@pytest.mark.drill
def test_a_rolling_restart_of_the_gateway_breaks_no_stream(own: Platform) -> None:
    """With streams running and requests coming, the gateway is replaced and every answer is whole."""
    before = own.pids("gateway")
    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        began = time.monotonic()
        streams = [pool.submit(stream_lines, own, max_tokens=120, on_first=lambda: None) for _ in range(3)]
        time.sleep(0.5)
        own.run("restart", "gateway")
        statuses = []
        while not all(stream.done() for stream in streams) and time.monotonic() - began < 60:
            statuses.append(ask(own, max_tokens=1).status_code)
        ends = [stream.result()[-1] for stream in streams]
    assert ends == ["data: [DONE]"] * 3
    assert set(statuses) == {200}
    until("the gateway is another process", revived(own, "gateway", before), within_s=15)


def test_the_supervisor_alone_killed_leaves_a_model_loaded_for_the_next(own: Platform) -> None:
    """After kill -9 of the supervisor its gateway ends, the worker stays, and the next start adopts it."""
    engines, gateways = own.pids("worker"), own.pids("gateway")
    assert own.process is not None
    own.process.kill()
    own.process.wait()
    until("the gateway has followed", lambda: not any(Path(f"/proc/{pid}").exists() for pid in gateways))
    own.start()
    assert own.pids("worker") == engines
    assert ask(own).status_code == 200


def test_everything_killed_is_mended_by_the_next_start(own: Platform) -> None:
    """After kill -9 of every process the next start needs no hand, and the keys still work."""
    key = own.demo_key
    own.kill_all()
    own.start()
    assert own.demo_key == key
    assert ask(own).status_code == 200


def test_ctrl_c_drains(own: Platform) -> None:
    """A stream that runs when the end is asked for is finished; nothing is left behind; the keys survive."""
    key = own.demo_key

    def interrupt() -> None:
        assert own.process is not None
        own.process.send_signal(signal.SIGINT)

    lines = stream_lines(own, max_tokens=80, on_first=interrupt)
    assert lines[-1] == "data: [DONE]"
    assert own.process is not None
    assert own.process.wait(60) == 0
    assert own.survivors() == []
    assert own.demo_key == key
