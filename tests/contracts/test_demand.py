"""Gateways' reports of demand, told to controllers: in memory and through a real Postgres."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

import pytest
from structlog.testing import capture_logs

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.demand import CHANNEL, PostgresDemand, PostgresDemandTeller
from penstock.domain.fleet.demand import Counted, GatewayReport, HeldNow
from penstock.domain.ids import VersionId
from penstock.domain.tenancy.standing import Standing
from tests.support.patience import patient
from tests.twins.demand import MemoryDemand

A = VersionId("a@1")


class Teller(Protocol):
    async def tell(self, report: GatewayReport) -> None: ...


class DemandSource(Protocol):
    async def run(self, on_report: Callable[[GatewayReport], None]) -> None: ...


@dataclass(frozen=True)
class Wire:
    teller: Teller
    source: DemandSource


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def wire(request: pytest.FixtureRequest) -> Wire:
    if request.param == "memory":
        memory = MemoryDemand()
        return Wire(memory, memory)
    database = request.getfixturevalue("database")
    return Wire(PostgresDemandTeller(database), PostgresDemand(request.getfixturevalue("database_dsn")))


def report(number: int, *, versions: int = 1) -> GatewayReport:
    counted = tuple(
        Counted(version=VersionId(f"model-{one}@{one * 7919:012x}"), standing=standing, requests=one)
        for one in range(versions)
        for standing in Standing
    )
    return GatewayReport(
        gateway="host:1",
        began=1_000.5,
        number=number,
        counted=counted,
        held=(HeldNow(version=A, requests=3, tokens=700, oldest_s=0.25),),
        loop_lag_s=0.01,
    )


@asynccontextmanager
async def heard(source: DemandSource) -> AsyncIterator[list[GatewayReport]]:
    found: list[GatewayReport] = []
    task = asyncio.create_task(source.run(found.append))
    try:
        yield found
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until_heard(wire: Wire, found: list[GatewayReport], told: GatewayReport) -> None:
    """Tell it as a gateway does, again and again, until it has arrived."""
    async with asyncio.timeout(patient(10.0)):
        while told not in found:
            await wire.teller.tell(told)
            await asyncio.sleep(0.05)


async def test_a_report_is_heard_by_every_controller_that_listens(wire: Wire) -> None:
    """Each controller hears it, whole, and a later one hears nothing of the past."""
    async with heard(wire.source) as found:
        await until_heard(wire, found, report(3))
        assert found[0] == report(3)
        async with heard(wire.source) as later:
            await until_heard(wire, later, report(4))
            assert {one.number for one in later} == {4}


async def test_a_report_of_a_thousand_versions_is_whole(wire: Wire) -> None:
    """It is longer than one notification, and arrives equal."""
    async with heard(wire.source) as found:
        await until_heard(wire, found, report(5, versions=1_000))


@pytest.mark.integration
async def test_nonsense_is_left_out_and_a_broken_connection_mended(database: Database, database_dsn: str) -> None:
    """Foreign messages change nothing, and a listener with a broken connection listens again."""
    source = PostgresDemand(database_dsn)
    wire = Wire(PostgresDemandTeller(database), source)
    with capture_logs() as logged:
        async with heard(source) as found:
            await until_heard(wire, found, report(1))
            for payload in ("", "nonsense", "a 1 0 1 {}", "a 1 1 1 x", "a 1 0 65 x", "a 1 x 1 y"):
                await database.rows("select pg_notify($1, $2)", CHANNEL, payload)
            await until_heard(wire, found, report(2))
            assert source.assembly.refused == 6
            await database.rows(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where query ilike 'select 1%' and pid <> pg_backend_pid()"
            )
            await until_heard(wire, found, report(3))
    assert [one["count"] for one in logged if one["event"] == "demand_reports_refused"] == [6]
