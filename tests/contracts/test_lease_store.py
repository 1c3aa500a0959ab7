"""The store of heartbeats: the memory twin and Postgres keep the same promises."""

import pytest

from penstock.connectors.postgres.leases import PostgresLeases
from penstock.control.fleet.heartbeats import LeaseStore
from penstock.domain.fleet.worker import PhaseTiming, WorkerReport, WorkerState
from penstock.domain.ids import VersionId, WorkerId
from tests.support.samples import control_plane as things
from tests.twins.leases import MemoryLeases


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def store(request: pytest.FixtureRequest) -> LeaseStore:
    return MemoryLeases() if request.param == "memory" else PostgresLeases(request.getfixturevalue("database"))


async def test_heartbeats_come_back_as_they_went_in(store: LeaseStore) -> None:
    """A stored heartbeat equals what was saved, phases and all."""
    report = WorkerReport(
        worker=WorkerId("w1"),
        version=things.version().id,
        state=WorkerState.FAILED,
        url="",
        phases=(PhaseTiming(phase=WorkerState.LOADING, seconds=1.5),),
        detail="digest of model.safetensors differs: ü",
        adapters=(VersionId("pirate@eeeeeeeeeeee"),),
    )
    await store.save([things.seen(report, 1.0), things.seen(things.report("w2"), 2.0)])
    assert await store.load(0.0) == (things.seen(report, 1.0), things.seen(things.report("w2"), 2.0))


async def test_an_older_heartbeat_never_replaces_a_newer_one(store: LeaseStore) -> None:
    """Heartbeats that arrive out of order leave the newest."""
    newer = things.seen(things.report("w1"), 9.0)
    await store.save([newer])
    await store.save([things.seen(things.report("w1", state=WorkerState.LOADING), 8.0)])
    assert await store.load(0.0) == (newer,)


async def test_old_heartbeats_are_left_out_and_forgotten(store: LeaseStore) -> None:
    """Loading starts at a time, and forgetting removes what is older."""
    old, new = things.seen(things.report("w1"), 1.0), things.seen(things.report("w2"), 5.0)
    await store.save([old, new])
    assert await store.load(2.0) == (new,)
    await store.forget(2.0)
    assert await store.load(0.0) == (new,)


async def test_saving_nothing_is_fine(store: LeaseStore) -> None:
    """An empty batch changes nothing."""
    await store.save([])
    assert await store.load(0.0) == ()
