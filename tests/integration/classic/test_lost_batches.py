"""A torch engine is killed with batches in it: its callers' errors, the ledger's rows, and its return."""

import asyncio
import base64
from collections.abc import Iterator, Sequence

import httpx
import pytest

from penstock.packaging.demo_models import PICTURES
from tests.support.failures.deaths import engine_dies
from tests.support.patience import until
from tests.support.platforms.books import Books
from tests.support.platforms.local import Platform
from tests.support.platforms.readings import Fleet, Gate

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

MODEL, CLASSIFY = "efficientnet", "/v1/classify"
ESPRESSO = "data:image/jpeg;base64," + base64.b64encode((PICTURES / "espresso.jpg").read_bytes()).decode()
CROWD, MANY = 12, 8
"""Images a request, enough for several batches: the engine still works when a busy machine's kill arrives."""


def gates_of(platform: Platform) -> list[Gate]:
    """Return the image model's workers that answer."""
    ready = Fleet(platform=platform).ready()
    return [g for g in Fleet(platform=platform).gates() if g.serves(MODEL) and g.worker in ready and g.is_healthy()]


@pytest.fixture
def books(classic_platform: Platform) -> Iterator[Books]:
    """Yield the platform's books since the test began; afterwards they agree, and one worker serves as before."""
    until("a worker serves", lambda: len(gates_of(classic_platform)) == 1, within_s=60)
    kept = Books(classic_platform)
    yield kept
    until("a worker serves", lambda: len(gates_of(classic_platform)) == 1, within_s=60)
    kept.balance()


@pytest.fixture
def two(classic_platform: Platform, books: Books) -> Iterator[Sequence[Gate]]:
    """Yield two workers of the image model."""
    version = gates_of(classic_platform)[0].version
    classic_platform.run("models", "scale", version, "2")
    until("two workers serve", lambda: len(gates_of(classic_platform)) == 2, within_s=90, every_s=0.2)
    yield gates_of(classic_platform)
    classic_platform.run("models", "scale", version, "1")


async def crowd(platform: Platform, victims: Sequence[Gate], each: int = 1) -> list[httpx.Response]:
    """Send images at once, kill an engine with a batch in it, and return how each ended."""
    headers = {"authorization": f"Bearer {platform.demo_key}"}
    async with httpx.AsyncClient(base_url=platform.url, headers=headers, timeout=60, trust_env=False) as http:
        body = {"model": MODEL, "input": [ESPRESSO] * each}
        asks = [asyncio.create_task(http.post(CLASSIFY, json={**body, "user": f"{i}"})) for i in range(CROWD)]
        victim = await asyncio.to_thread(busy_one, victims)
        engine_dies(victim)
        return await asyncio.gather(*asks)


def busy_one(gates: Sequence[Gate]) -> Gate:
    found: list[Gate] = []

    def look() -> bool:
        found[:] = [gate for gate in gates if gate.load().get("running")]
        return bool(found)

    until("a batch is under way", look, within_s=20, every_s=0.001)
    return found[0]


def test_who_was_in_a_lost_batch_is_answered_by_another_worker(
    classic_platform: Platform, books: Books, two: Sequence[Gate]
) -> None:
    """No caller notices the kill of one of two engines: all are answered, each has one row, paid once."""
    answers = asyncio.run(crowd(classic_platform, two))
    assert [one.status_code for one in answers] == [200] * CROWD, {one.text[:200] for one in answers}
    books.balance()
    assert [row["outcome"] for row in books.rows.values()] == ["ok"] * CROWD
    assert len({row["cost"] for row in books.rows.values()}) == 1


def test_without_another_worker_it_is_a_503_with_a_wait(classic_platform: Platform, books: Books) -> None:
    """Callers of the only engine's batch hear that no worker serves, and when to come back; a new engine serves
    then.
    """
    (killed,) = gates_of(classic_platform)
    answers = asyncio.run(crowd(classic_platform, [killed], each=MANY))
    lost = [one for one in answers if one.status_code != 200]
    assert lost
    for one in lost:
        error = one.json()["error"]
        assert (one.status_code, error["retryable"], int(one.headers["retry-after"]) >= 1) == (503, True, True), error
    until("another engine serves", lambda: [g.engine_pid for g in gates_of(classic_platform)] != [killed.engine_pid])
    books.balance()
    assert sum(row["outcome"] == "ok" for row in books.rows.values()) == CROWD - len(lost)
    assert len(books.rows) == CROWD
