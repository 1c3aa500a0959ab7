"""What gateways hold requests for, told to controllers: in memory and through a real Postgres."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.wanted import CHANNEL, PostgresWanted, PostgresWantedTeller
from penstock.domain.fleet.versions import Wanted
from penstock.domain.ids import VersionId
from tests.support.patience import patient
from tests.twins.wanted import MemoryWanted

A = VersionId("a@1")


class Teller(Protocol):
    async def tell(self, version: VersionId, requests: int, tokens: int) -> None: ...


class WantedSource(Protocol):
    async def run(self, on_wanted: Callable[[Wanted], None]) -> None: ...


@dataclass(frozen=True)
class Wire:
    teller: Teller
    source: WantedSource


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def wire(request: pytest.FixtureRequest) -> Wire:
    if request.param == "memory":
        memory = MemoryWanted()
        return Wire(memory, memory)
    database = request.getfixturevalue("database")
    return Wire(PostgresWantedTeller(database), PostgresWanted(request.getfixturevalue("database_dsn")))


@asynccontextmanager
async def heard(source: WantedSource) -> AsyncIterator[list[Wanted]]:
    found: list[Wanted] = []
    task = asyncio.create_task(source.run(found.append))
    try:
        yield found
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until_heard(wire: Wire, found: list[Wanted], requests: int) -> None:
    """Tell it as a gateway does, again and again, until it has arrived."""
    async with asyncio.timeout(patient(10.0)):
        while not any(one.requests == requests for one in found):
            await wire.teller.tell(A, requests, 700)
            await asyncio.sleep(0.05)


async def test_what_is_told_is_heard_by_everybody_who_listens(wire: Wire) -> None:
    """Each controller hears of it, whole, and a later one hears nothing of the past."""
    async with heard(wire.source) as found:
        await until_heard(wire, found, 3)
        assert found[0] == Wanted(version=A, requests=3, tokens=700)
        async with heard(wire.source) as later:
            await until_heard(wire, later, 4)
            assert {one.requests for one in later} == {4}


@pytest.mark.integration
async def test_nonsense_is_left_out_and_a_broken_connection_mended(database: Database, database_dsn: str) -> None:
    """Foreign messages change nothing, and a listener with a broken connection listens again."""
    source = PostgresWanted(database_dsn)
    wire = Wire(PostgresWantedTeller(database), source)
    async with heard(source) as found:
        await until_heard(wire, found, 1)
        for payload in ("", "nonsense", "{}", '{"version": 1, "requests": 1, "tokens": 1}', '"a"'):
            await database.rows("select pg_notify($1, $2)", CHANNEL, payload)
        await until_heard(wire, found, 2)
        assert source.refused == 5
        await database.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity where query ilike $1 and pid <> pg_backend_pid()",
            "select 1%",
        )
        await until_heard(wire, found, 3)
