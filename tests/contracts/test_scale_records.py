"""What every store of scaling records promises, held against memory and a real Postgres."""

import pytest

from penstock.connectors.postgres import scaling
from penstock.connectors.postgres.scaling import PostgresScaleRecords
from penstock.control.autoscaler.autoscaler import RecordStore
from penstock.domain.fleet.scaling import Act, Override, ScaleRecord, Signal
from penstock.domain.ids import VersionId
from tests.twins.scaling import MOST_KEPT, MemoryScaleRecords


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def store(request: pytest.FixtureRequest) -> RecordStore:
    if request.param == "memory":
        return MemoryScaleRecords()
    return PostgresScaleRecords(request.getfixturevalue("database"))


def record(number: int, version: str = "m@1") -> ScaleRecord:
    return ScaleRecord(
        version=VersionId(version),
        at=float(number),
        act=Act.OUT,
        before=number,
        after=number + 1,
        wish=1.5,
        reason="asked_work",
        signals=(Signal(name="growth", value=1.25, unit="times"),),
        override=Override(workers=2, until=9.0, who="anna", reason="a launch"),
    )


async def test_records_come_back_newest_first_as_they_were(store: RecordStore) -> None:
    """With their signals and override; of one version, or of all."""
    assert await store.newest("", 9) == ()
    await store.note([record(1), record(2, "other@1")])
    await store.note([record(3)])
    assert await store.newest("", 2) == (record(3), record(2, "other@1"))
    assert await store.newest("m@1", 9) == (record(3), record(1))


async def test_each_version_keeps_a_bounded_number(store: RecordStore) -> None:
    """A version that changes all the time pushes out none of another's."""
    assert MOST_KEPT == scaling.MOST_KEPT
    await store.note([record(0, "other@1")])
    await store.note([record(number) for number in range(MOST_KEPT + 5)])
    kept = await store.newest("m@1", 2 * MOST_KEPT)
    assert (len(kept), kept[-1]) == (MOST_KEPT, record(5))
    assert await store.newest("other@1", 9) == (record(0, "other@1"),)
