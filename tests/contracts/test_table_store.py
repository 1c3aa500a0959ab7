"""The store of routing tables: the memory twin and Postgres keep the same promises."""

from dataclasses import replace

import pytest

from penstock.connectors.postgres.tables import PostgresTables
from penstock.control.api.ports import TableHistory
from penstock.domain.errors import Conflict
from penstock.domain.fleet.table import EMPTY, RoutingTable, WorkerEntry, validate
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, VersionId, WorkerId
from penstock.domain.serving.auto import Auto, Rule
from tests.support.samples import adapter_versions
from tests.support.samples import control_plane as things
from tests.support.samples.calls import VERSION
from tests.twins.tables import MemoryTables

KEEP = 20


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def store(request: pytest.FixtureRequest) -> TableHistory:
    """Return an empty store that keeps twenty tables."""
    if request.param == "memory":
        return MemoryTables(keep=KEEP)
    return PostgresTables(request.getfixturevalue("database"), keep=KEEP)


def table(number: int, version: str = "a@1") -> RoutingTable:
    return RoutingTable(number=number, made_at=float(number), routes=(things.route("chat", VersionId(version)),))


async def test_the_newest_table_is_the_latest(store: TableHistory) -> None:
    """What was published last comes back whole; before that the empty table."""
    assert await store.latest() == EMPTY
    await store.publish(table(1))
    await store.publish(table(3))
    assert await store.latest() == table(3)
    assert await store.numbered(1) == table(1)
    assert await store.numbered(2) is None
    assert await store.history(5) == (table(3), table(1))


async def test_adapters_come_back_whole(store: TableHistory) -> None:
    """An adapter with its base, and its base's worker with what it holds."""
    adapter = adapter_versions.entry()
    worker = WorkerEntry(id=WorkerId("w"), url="http://w", state=WorkerState.READY, adapters=(adapter.id,))
    made = replace(table(1), routes=(), versions=(replace(VERSION, workers=(worker,)), adapter))
    await store.publish(validate(made))
    assert await store.latest() == made


@pytest.mark.parametrize("number", [2, 3])
async def test_a_number_that_is_not_newer_is_refused(store: TableHistory, number: int) -> None:
    """A table with a used or passed number is a conflict and changes nothing."""
    await store.publish(table(3))
    with pytest.raises(Conflict):
        await store.publish(table(number, "b@1"))
    assert await store.latest() == table(3)


async def test_old_tables_stay_where_routes_changed(store: TableHistory) -> None:
    """Only the newest tables are kept, and before them the last one of each set of routes."""
    for number in range(1, 61):
        await store.publish(table(number, "a@1" if number < 10 else "b@1"))
    kept = [one.number for one in await store.history(100)]
    assert kept == [*range(60, 40, -1), 9]


async def test_old_tables_stay_where_rules_changed(store: TableHistory) -> None:
    """The rules of an auto alias can be gone back to as an alias's versions can."""
    for number in range(1, 61):
        rule = Rule(name="new" if number > 10 else "old", to=Alias("chat"))
        await store.publish(replace(table(number), autos=(Auto(alias=Alias("auto"), rules=(rule,)),)))
    found = await store.history(100)
    assert [one.number for one in found][-1] == 10
    assert {one.autos[0].rules[0].name for one in found} == {"new", "old"}
