"""Two workers of one model, and one of them dies: what a caller sees, and how soon the worker is back."""

import os
import signal
import time
from collections.abc import Callable

import psutil
import pytest

from penstock.telemetry import names
from tests.support.asks import CHAT, chat, long_answer, long_prompt
from tests.support.faults import FaultTable
from tests.support.fleet import Fleet, Gate
from tests.support.platform import until
from tests.support.wire import Stream, Wire

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

Kill = Callable[[Gate], None]
BACK_WITHIN_S = 60.0
BROKEN = {"stream_broken", "engine_error"}
"""The connection broke, or the engine could still say that its core is dead."""


def engine_dies(gate: Gate) -> None:
    os.kill(gate.engine_pid, signal.SIGKILL)


def core_dies(gate: Gate) -> None:
    """Kill what the kernel would kill for want of memory: the largest process of the engine."""
    family = [psutil.Process(gate.engine_pid), *psutil.Process(gate.engine_pid).children(recursive=True)]
    max(family, key=lambda process: process.memory_info().rss).kill()


def agent_dies(gate: Gate) -> None:
    os.kill(gate.agent_pid, signal.SIGKILL)


def engine_freezes(gate: Gate) -> None:
    os.killpg(os.getpgid(gate.engine_pid), signal.SIGSTOP)


DEATHS = [
    pytest.param(engine_dies, "`kill -9` of the engine", id="engine"),
    pytest.param(core_dies, "the engine's core killed as for want of memory", id="oom"),
    pytest.param(agent_dies, "`kill -9` of the worker's agent", id="agent"),
]
FREEZE = pytest.param(engine_freezes, "engine frozen with SIGSTOP", id="sigstop")


def failed_streams(fleet: Fleet) -> float:
    return sum(fleet.counted(names.REQUESTS, outcome=outcome) for outcome in ("broken_stream", "engine_error"))


def the_busy_one(fleet: Fleet) -> Gate:
    until("a worker has the request", lambda: len(fleet.busy()) == 1, within_s=10, every_s=0.005)
    return fleet.busy()[0]


def until_whole_again(fleet: Fleet, lost: Gate) -> None:
    """Wait until two workers serve, and the lost engine's process is another one or gone."""
    until(
        "another engine has taken the place",
        lambda: len(fleet.ready()) == 2 and all(gate.engine_pid != lost.engine_pid for gate in fleet.gates()),
        within_s=BACK_WITHIN_S,
        every_s=0.1,
    )
    fleet.until_ready(2, within_s=BACK_WITHIN_S)


@pytest.mark.parametrize(("kill", "what"), [*DEATHS, FREEZE])
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
def test_before_the_first_token_another_worker_answers(
    pair: Fleet, faults: FaultTable, kill: Kill, what: str, stream: bool
) -> None:
    """Whatever happens to a worker while nothing was delivered, the caller gets its answer from the other one."""
    platform = pair.platform
    retries = pair.counted(names.RETRIES)
    with Wire(platform.url) as wire:
        wire.post(CHAT, {**long_prompt(time.monotonic_ns()), "stream": stream}, key=platform.demo_key)
        lost = the_busy_one(pair)
        kill(lost)
        began = time.monotonic()
        if stream:
            assert wire.answer().status == 200
            assert list(wire.events())[-1] == "[DONE]"
        else:
            told = wire.whole()
            assert told.status == 200, told.body
        answered_s = time.monotonic() - began
        logged = pair.logged(str(wire.answer().headers["x-request-id"]))
    assert logged["worker"] != lost.worker
    assert logged["attempt"] == 2
    assert logged["outcome"] == "ok"
    assert pair.counted(names.RETRIES) >= retries + 1
    if stream:
        return
    faults.add(f"{what}, before the first token", "200 from the other worker", answered_s)
    until_whole_again(pair, lost)
    faults.add(f"{what}: two workers ready again", "restarted by itself", time.monotonic() - began)


@pytest.mark.parametrize(("kill", "what"), DEATHS)
def test_after_the_first_token_the_error_is_in_band(pair: Fleet, faults: FaultTable, kill: Kill, what: str) -> None:
    """A stream that has begun ends with one error event of its own code and never with a false end; others go on."""
    platform = pair.platform
    broken = failed_streams(pair)
    stream = Stream(url=platform.url, key=platform.demo_key, body=long_answer(600)).start()
    until("tokens come", lambda: stream.tokens >= 3, within_s=20)
    lost = the_busy_one(pair)
    kill(lost)
    began = time.monotonic()
    stream.join(20)
    took_s = time.monotonic() - began
    assert stream.error is not None, stream.story
    assert stream.error["code"] in BROKEN
    assert stream.error["request_id"] == stream.headers["x-request-id"]
    assert not stream.done
    assert not stream.cut
    with platform.http() as http:
        assert http.post(CHAT, json=chat("Hi")).status_code == 200
    until("it is counted", lambda: failed_streams(pair) == broken + 1, within_s=5)
    faults.add(f"{what}, after the first token", f"in-band `{stream.error['code']}`, no `[DONE]`", took_s)
    until_whole_again(pair, lost)


def test_a_frozen_engine_after_the_first_token(pair: Fleet, faults: FaultTable) -> None:
    """A stream from an engine that freezes ends in band when the freeze is found; the engine is replaced."""
    platform = pair.platform
    stream = Stream(url=platform.url, key=platform.demo_key, body=long_answer(600)).start()
    until("tokens come", lambda: stream.tokens >= 3, within_s=20)
    lost = the_busy_one(pair)
    engine_freezes(lost)
    began = time.monotonic()
    stream.join(40)
    took_s = time.monotonic() - began
    assert stream.error is not None, stream.story
    assert not stream.done
    until_whole_again(pair, lost)
    faults.add("engine frozen with SIGSTOP, after the first token", f"in-band `{stream.error['code']}`", took_s)
    faults.add(
        "engine frozen with SIGSTOP: two workers ready again", "hang found and restarted", time.monotonic() - began
    )


def test_while_one_engine_is_frozen_the_other_serves(pair: Fleet, faults: FaultTable) -> None:
    """Nobody waits for long behind a frozen engine: every request sent meanwhile is answered."""
    platform = pair.platform
    lost = pair.gates()[0]
    engine_freezes(lost)
    began, slowest_s, answers = time.monotonic(), 0.0, 0
    with platform.http() as http:
        while time.monotonic() - began < 5:
            answer = http.post(CHAT, json=chat(f"{answers}"))
            assert answer.status_code == 200, answer.text
            slowest_s, answers = max(slowest_s, answer.elapsed.total_seconds()), answers + 1
    until_whole_again(pair, lost)
    faults.add(
        "requests while one of two engines is frozen",
        f"all {answers} answered; the slowest in the seconds here",
        slowest_s,
    )


def test_with_all_workers_gone_the_wait_is_computed(pair: Fleet, faults: FaultTable) -> None:
    """Without any worker the answer is 503 with a Retry-After that comes true, and then all is well again."""
    platform = pair.platform
    gates = pair.gates()
    for gate in gates:
        agent_dies(gate)
    began = time.monotonic()
    waits: list[int] = []
    with platform.http() as http:

        def is_served() -> bool:
            answer = http.post(CHAT, json=chat("Hi"))
            if answer.status_code == 200:
                return True
            assert answer.status_code == 503, answer.text
            error = answer.json()["error"]
            assert error["retryable"] is True
            assert error["retry_after"] == int(answer.headers["retry-after"]) >= 1
            assert answer.headers["x-should-retry"] == "true"
            waits.append(error["retry_after"])
            return False

        until("somebody serves again", is_served, within_s=BACK_WITHIN_S, every_s=0.25)
    back_s = time.monotonic() - began
    assert waits
    assert max(waits) < 60
    pair.until_ready(2)
    shown = f"{min(waits)} to {max(waits)}"
    faults.add(
        "all workers gone", f"503 `no_capacity`, Retry-After {shown} s; served again after the seconds here", back_s
    )
