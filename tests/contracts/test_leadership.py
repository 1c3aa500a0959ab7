"""Leadership: the memory twin and Postgres keep the same promises."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.leadership import PostgresLeadership, leader
from penstock.control.runtime import Leadership
from tests.twins.leadership import LeaderLock, MemoryLeadership

Candidates = tuple[Leadership, Leadership]


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Candidates, Callable[[], Awaitable[str]]]]:
    """Yield two candidates, and the question for the leader's name."""
    pair: Candidates
    if request.param == "memory":
        lock = LeaderLock()
        pair = MemoryLeadership(lock, "first"), MemoryLeadership(lock, "second")
        yield pair, lock.leader
    else:
        dsn = request.getfixturevalue("postgres_dsn")
        pair = PostgresLeadership(dsn, "first"), PostgresLeadership(dsn, "second")
        async with Database(dsn) as database:
            yield pair, partial(leader, database)
    for candidate in pair:
        await candidate.resign()


@pytest.fixture
def candidates(site: tuple[Candidates, Callable[[], Awaitable[str]]]) -> Candidates:
    return site[0]


async def test_one_leads_and_keeps_leading(candidates: tuple[Leadership, Leadership]) -> None:
    """The first to ask leads for as long as it asks; the other one never does."""
    first, second = candidates
    assert [await first.is_mine(), await second.is_mine(), await first.is_mine()] == [True, False, True]


async def test_after_resigning_the_other_one_leads(candidates: tuple[Leadership, Leadership]) -> None:
    """Leadership that was let go goes to the next candidate that asks."""
    first, second = candidates
    assert await first.is_mine()
    await first.resign()
    assert [await second.is_mine(), await first.is_mine()] == [True, False]


async def test_the_leader_is_known_by_name(site: tuple[Candidates, Callable[[], Awaitable[str]]]) -> None:
    """Nobody leads at first; then the one that does is named, and after it its successor."""
    (first, second), name = site
    assert await name() == ""
    assert await first.is_mine()
    assert await name() == "first"
    await first.resign()
    assert await second.is_mine()
    assert await name() == "second"
