"""Two workers of one model, and one of them dies: what a caller sees, and how soon the worker is back.

Here nothing was delivered before; ``test_continuation.py`` has the streams that had begun.
"""

import time
from collections.abc import Mapping

import pytest

from penstock.telemetry import names
from tests.support.clients.sockets import Wire
from tests.support.failures.deaths import (
    BACK_WITHIN_S,
    Kill,
    agent_dies,
    core_dies,
    engine_dies,
    engine_freezes,
    the_busy_one,
    until_whole_again,
)
from tests.support.failures.table import FaultTable
from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.platforms.readings import Fleet
from tests.support.samples.chat_bodies import CHAT, chat, long_prompt

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

KILLED, FROZEN = "`kill -9` of the engine", "engine frozen with SIGSTOP"
DEATHS = [
    pytest.param(engine_dies, KILLED, False, id="engine", marks=pytest.mark.drill),
    pytest.param(core_dies, "the engine's core killed as for want of memory", False, id="oom", marks=pytest.mark.drill),
    pytest.param(agent_dies, "`kill -9` of the worker's agent", False, id="agent", marks=pytest.mark.drill),
    pytest.param(engine_freezes, FROZEN, False, id="sigstop"),
    pytest.param(engine_dies, KILLED, True, id="stream-engine", marks=pytest.mark.drill),
    pytest.param(engine_freezes, FROZEN, True, id="stream-sigstop", marks=pytest.mark.drill),
]
"""A stream loses its worker like any other request: the connection breaks, or nothing comes."""

REFUSALS = frozenset({(502, "worker_lost"), (503, "worker_lost"), (503, "no_capacity")})
"""While all workers are lost: of a request that two of them had, that the last one had, and that nobody took."""


@pytest.mark.parametrize(("kill", "what", "stream"), DEATHS)
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


@pytest.mark.drill
def test_while_one_engine_is_frozen_the_other_serves(pair: Fleet, faults: FaultTable) -> None:
    """No request waits for long behind a frozen engine: every one sent meanwhile is answered."""
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


def test_who_loses_two_workers_in_a_row_may_come_back(pair: Fleet, faults: FaultTable) -> None:
    """A request that loses an engine, then an agent, hears a wait and not "never again"; sent again it is answered."""
    platform = pair.platform
    body = long_prompt(time.monotonic_ns())
    with Wire(platform.url) as wire:
        wire.post(CHAT, body, key=platform.demo_key)
        first = the_busy_one(pair)
        engine_dies(first)
        until("the other one has it", lambda: the_busy_one(pair).worker != first.worker, within_s=10, every_s=0.005)
        agent_dies(the_busy_one(pair))
        told = wire.whole()
    began = time.monotonic()
    assert (told.status, told.json()["error"]["code"]) == (502, "worker_lost"), told.body
    wait_s = _wait_told(told.json()["error"], dict(told.headers.items()))
    refused = sum(map(len, _until_served(platform, body).values()))
    faults.add(
        "`kill -9` of the engine and then of the agent that a request was sent to",
        f"502 `worker_lost`, retryable, Retry-After {wait_s} s; the same request {refused} times refused, then 200",
        time.monotonic() - began,
    )
    pair.until_ready(2)


@pytest.mark.drill
def test_with_all_workers_gone_the_wait_is_computed(pair: Fleet, faults: FaultTable) -> None:
    """Without any worker each answer is a wait that comes true; a request may also be held until one is back."""
    platform = pair.platform
    for gate in pair.gates():
        agent_dies(gate)
    began = time.monotonic()
    waits = _until_served(platform, chat("Hi"))
    back_s = time.monotonic() - began
    pair.until_ready(2)
    shown = ", ".join(f"`{code}` {min(some)} to {max(some)} s" for code, some in waits.items()) or "held"
    faults.add("all workers gone", f"Retry-After: {shown}; served again after the seconds here", back_s)


def _until_served(platform: Platform, body: dict[str, object]) -> dict[str, list[int]]:
    """Send it again and again until it is answered; return the waits that were told, by the error's code.

    A request that comes while its workers die may lose both of them, each of which lived when it was chosen.
    """
    waits: dict[str, list[int]] = {}
    with platform.http() as http:

        def is_served() -> bool:
            answer = http.post(CHAT, json=body)
            if answer.status_code == 200:
                return True
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) in REFUSALS, answer.text
            waits.setdefault(error["code"], []).append(_wait_told(error, answer.headers))
            return False

        until("somebody serves again", is_served, within_s=BACK_WITHIN_S, every_s=0.25)
    return waits


def _wait_told(error: Mapping[str, object], headers: Mapping[str, str]) -> int:
    """Return the wait of an error that may be sent again, told alike in its body and its headers."""
    wait_s = int(headers["retry-after"])
    assert error["retryable"] is True
    assert headers["x-should-retry"] == "true"
    assert error["retry_after"] == wait_s
    assert 1 <= wait_s <= BACK_WITHIN_S
    return wait_s
