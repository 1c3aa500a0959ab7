"""A pool of two places and three versions: real controller, gateways and Postgres, and workers that have no engine."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from tests.support.patience import patient, until
from tests.support.platforms.rollouts import TENANTS, Town, town

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

POOL_BYTES = 680_000_000
"""Of a worker's 270 MB two fit, and no third."""


class Pool:
    def __init__(self, place: Town) -> None:
        self.place = place
        self.versions = [place.version(place.site.engines[number % 2]) for number in range(3)]

    @property
    def states(self) -> dict[str, str]:
        """Return the state of each version's worker, as the table in force has it."""
        found = {one["id"]: one["workers"] for one in self.place.call("GET", "/table")["versions"]}
        return {version: found[version][0]["state"] for version in self.versions if found[version]}

    def sleeper(self) -> str:
        """Return the sleeping one, once none is on the way."""
        until("one of them sleeps", lambda: sorted(self.states.values()) == ["ready", "ready", "sleeping"])
        return next(version for version, state in self.states.items() if state == "sleeping")

    async def ask(self, version: str, gateway: int = 0) -> httpx.Response:
        """Ask a version by its own name."""
        body = {"model": version, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}
        headers = {"authorization": f"Bearer {self.place.site.secrets[TENANTS[0]]}"}
        url = list(self.place.site.gateways.values())[gateway].url
        async with httpx.AsyncClient(timeout=patient(40), trust_env=False) as http:
            return await http.post(f"{url}/v1/chat/completions", json=body, headers=headers)

    def kill(self, version: str) -> None:
        for path in (self.place.home.root / "run/workers").glob("*.json"):
            record = json.loads(path.read_text())
            if record["version"] == version:
                with suppress(ProcessLookupError):
                    os.kill(record["pid"], signal.SIGKILL)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with town(pool_bytes=str(POOL_BYTES)) as place:
        yield Pool(place)


async def test_whoever_is_asked_wakes_in_somebody_elses_place(pool: Pool) -> None:
    """Each gateway's held request is answered by the version that it named, and never are three awake."""
    for turn in range(3):
        asked = await asyncio.to_thread(pool.sleeper)
        answers = await asyncio.gather(*[pool.ask(asked, gateway) for gateway in (0, 1)])
        assert [one.status_code for one in answers] == [200, 200], answers[0].text
        told = [one.json()["penstock"] for one in answers]
        assert {one["version"] for one in told} == {asked}
        assert min(one["stages_ms"]["wake"] for one in told) > 0, turn
        assert list(pool.states.values()).count("ready") <= 2


async def test_who_is_killed_while_it_wakes_is_replaced_and_its_callers_answered(pool: Pool) -> None:
    """The request stays held through the loss, and the successor answers it."""
    asked = await asyncio.to_thread(pool.sleeper)
    task = asyncio.create_task(pool.ask(asked))
    await asyncio.to_thread(until, "it wakes", lambda: pool.states.get(asked) != "sleeping", within_s=60, every_s=0.02)
    await asyncio.to_thread(pool.kill, asked)
    answer = await task
    assert answer.status_code == 200, answer.text


async def test_a_long_deadline_is_no_reason_to_wait_where_nobody_leads(pool: Pool) -> None:
    """With the controller away nothing is woken: the request is refused when its time is over, and not before a
    wake.
    """
    asked = await asyncio.to_thread(pool.sleeper)
    (controller, *_) = [one for one in pool.place.home.controllers if one.poll() is None]
    controller.send_signal(signal.SIGSTOP)
    try:
        body = {"model": asked, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}
        headers = {"authorization": f"Bearer {pool.place.site.secrets[TENANTS[0]]}", "x-penstock-deadline-ms": "2000"}
        url = next(iter(pool.place.site.gateways.values())).url
        async with httpx.AsyncClient(timeout=patient(30), trust_env=False) as http:
            answer = await http.post(f"{url}/v1/chat/completions", json=body, headers=headers)
        assert answer.json()["error"]["code"] == "deadline_in_queue"
        assert answer.headers["retry-after"]
    finally:
        controller.send_signal(signal.SIGCONT)
    assert (await pool.ask(asked)).status_code == 200
