"""Leadership: the memory twin and Postgres keep the same promises."""

from collections.abc import AsyncIterator

import pytest

from penstock.connectors.postgres.leadership import PostgresLeadership
from penstock.control.runtime import Leadership
from tests.twins.leadership import LeaderLock, MemoryLeadership


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
async def candidates(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Leadership, Leadership]]:
    pair: tuple[Leadership, Leadership]
    if request.param == "memory":
        lock = LeaderLock()
        pair = MemoryLeadership(lock, "first"), MemoryLeadership(lock, "second")
    else:
        dsn = request.getfixturevalue("postgres_dsn")
        pair = PostgresLeadership(dsn, "first"), PostgresLeadership(dsn, "second")
    yield pair
    for candidate in pair:
        await candidate.resign()


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


async def test_each_knows_the_leader_by_name(candidates: tuple[Leadership, Leadership]) -> None:
    """Nobody leads at first; then both tell the one that does, and its successor."""
    first, second = candidates
    assert await first.holder() == ""
    assert await first.is_mine()
    assert [await first.holder(), await second.holder()] == ["first", "first"]
    await first.resign()
    assert await second.is_mine()
    assert [await first.holder(), await second.holder()] == ["second", "second"]
