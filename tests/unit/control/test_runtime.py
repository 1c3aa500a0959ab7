"""When the loop ticks, who ticks, and what a failed tick changes: nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from penstock.domain.clock import SystemClock
from penstock.domain.errors import StoreUnavailable
from penstock.domain.fleet.table import RoutingTable
from penstock.domain.fleet.versions import Catalogue, Deployment
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room
from tests.support.patience import patient
from tests.support.samples import control_plane as things


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(patient(5.0)):
        while not check():  # noqa: ASYNC110  what is watched is not ours to signal
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(room: Room) -> AsyncIterator[None]:
    task = asyncio.create_task(room.runtime.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def deploy(room: Room) -> None:
    version = things.version()
    await room.registry.add_version(version, "sig", things.act())
    await room.registry.put_deployment(Deployment(version=version.id, replicas=1), things.act())


async def test_the_leader_brings_up_what_is_wanted() -> None:
    """Leading, it starts the workers, publishes a table, and says so in its metrics."""
    room = Room(SystemClock())
    await deploy(room)
    async with running(room):
        await until(lambda: room.runtime.is_ready)
        assert (room.runtime.leads, room.leadings) == (True, 1)
        worker, process = next(iter(room.host.running.items()))
        room.heartbeats.take(things.report(worker, process.version))
        await until(lambda: any(version.workers for version in room.runtime.table.versions))
        metrics = room.metrics.exposition().decode()
    assert "penstock_control_leader 1.0" in metrics
    assert f'penstock_workers{{state="ready",version="{process.version}"}} 1.0' in metrics
    assert len(room.host.running) == 1


async def test_a_stand_by_acts_only_when_it_leads() -> None:
    """The second controller changes nothing until the first one lets go."""
    room = Room(SystemClock())
    await deploy(room)
    assert await room.parts.leadership.is_mine()
    lock = room.parts.leadership._lock  # type: ignore[attr-defined]
    lock.holder = "somebody else"
    async with running(room):
        await until(lambda: room.runtime.is_ready)
        await asyncio.sleep(0.1)
        assert (room.runtime.leads, room.host.running) == (False, {})
        lock.holder = None
        await until(lambda: room.host.running)


async def test_a_tick_without_store_changes_nothing() -> None:
    """With the registry away the tick fails, is counted, and neither starts nor drains nor publishes."""
    room = Room(SystemClock())
    await deploy(room)

    async def away() -> Catalogue:
        raise StoreUnavailable

    good, room.registry.catalogue = room.registry.catalogue, away  # type: ignore[method-assign]
    async with running(room):
        await until(lambda: room.runtime.failed_ticks >= 3)
        assert room.host.plans == []
        assert (await room.tables.latest()).number == 0
        room.registry.catalogue = good  # type: ignore[method-assign]
        await until(lambda: room.host.running)


async def test_a_leader_whose_ticks_fail_for_long_is_not_ready(clock: ManualClock) -> None:
    """It stayed ready for good after one tick; now until ``stale_s``, and silence meanwhile is held against nobody."""
    room = Room(clock)
    await deploy(room)

    async def away() -> Catalogue:
        raise StoreUnavailable

    good = room.registry.catalogue
    async with running(room):
        await until(lambda: room.host.running)
        worker, process = next(iter(room.host.running.items()))
        room.heartbeats.take(things.report(worker, process.version))
        await until(lambda: any(version.workers for version in room.runtime.table.versions))
        room.registry.catalogue = away  # type: ignore[method-assign]
        failed = room.runtime.failed_ticks
        await until(lambda: room.runtime.failed_ticks > failed)
        clock.advance(room.parts.pace.stale_s)
        ready = [room.runtime.is_ready]
        clock.advance(0.1)
        assert [*ready, room.runtime.is_ready] == [True, False]
        failed = room.runtime.failed_ticks
        await until(lambda: room.runtime.failed_ticks > failed)
        room.registry.catalogue = good  # type: ignore[method-assign]
        await until(lambda: room.runtime.is_ready)
        assert [entry.id for version in room.runtime.table.versions for entry in version.workers] == [worker]


async def test_a_bad_table_is_refused_and_nothing_is_started(clock: ManualClock) -> None:
    """A builder that makes a bad table fails the tick before the fleet is touched; the last good table stays."""
    room = Room(clock)
    await deploy(room)
    good = await room.tables.latest()

    def broken(*_: object) -> RoutingTable:
        return RoutingTable(number=9, made_at=0.0, routes=(things.route("chat", things.TINY),))

    room.runtime._parts = room.parts = replace(room.parts, loop=replace(room.loop, build=broken))
    async with running(room):
        await until(lambda: room.runtime.failed_ticks)
    assert room.host.plans == []
    assert await room.tables.latest() == good


async def test_a_bug_in_a_tick_does_not_end_the_corridor(clock: ManualClock) -> None:
    """An unexpected error is counted like any failed tick."""
    room = Room(clock)

    def broken(*_: object) -> RoutingTable:
        raise ZeroDivisionError

    room.runtime._parts = replace(room.parts, loop=replace(room.loop, build=broken))
    async with running(room):
        await until(lambda: room.runtime.failed_ticks >= 2)
        assert room.runtime.leads


async def test_a_change_of_state_is_not_kept_waiting(clock: ManualClock) -> None:
    """With a tick a minute away, a new heartbeat is in the table within moments."""
    room = Room(clock)
    await deploy(room)
    room.runtime._parts = replace(room.parts, pace=replace(room.parts.pace, tick_s=60.0))
    async with running(room):
        await until(lambda: room.runtime.is_ready)
        worker, process = next(iter(room.host.running.items()))
        room.heartbeats.take(things.report(worker, process.version))
        await until(lambda: any(version.workers for version in room.runtime.table.versions))


async def test_who_leads_no_more_shows_no_fleet() -> None:
    """Its last view would stand beside the new leader's, and be summed with it."""
    room = Room(SystemClock())
    await deploy(room)
    lock = room.parts.leadership._lock  # type: ignore[attr-defined]
    async with running(room):
        await until(lambda: b"penstock_workers_wanted{" in room.metrics.exposition())
        lock.holder = "somebody else"
        await until(lambda: not room.runtime.leads)
        page = room.metrics.exposition()
    assert b"penstock_workers_wanted{" not in page
    assert b"penstock_workers{" not in page
