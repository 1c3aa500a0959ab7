"""What every store of safety packs promises, held against memory and a real Postgres."""

import asyncio

import pytest

from penstock.connectors.postgres import safety
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.deletions import PostgresDeletions, PostgresErasing
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.connectors.postgres.retention import PostgresExpiringTexts
from penstock.connectors.postgres.safety import PostgresPacks
from penstock.control.registry import packs as registry
from penstock.domain.errors import Conflict
from penstock.domain.ids import TenantId
from penstock.domain.jobs.deletion import Deletion, DeletionId, Scope
from penstock.domain.tenancy.audit import Act
from penstock.filters import evidence, shipped
from penstock.filters.evidence import MatchText
from penstock.filters.intervention import Events
from penstock.filters.pack import Action, Mode, Pack, Where
from penstock.sealing.segments import TenantKey
from tests.support.clock import ManualClock
from tests.support.samples.interventions import intervention
from tests.twins.audit import MemoryAudit
from tests.twins.packs import MemoryPacks

ACT = Act(who="k1", what="safety.push", target="own", at=5.0)


Store = MemoryPacks | PostgresPacks


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return MemoryPacks(MemoryAudit())
    return PostgresPacks(request.getfixturevalue("database"))


def version(number: int, mode: Mode = Mode.ENFORCE) -> Pack:
    return Pack(id="own", version=number, mode=mode)


async def test_old_interventions_go(clock: ManualClock) -> None:
    """Those of a quarter ago, in the first round of the controller."""
    store = MemoryPacks(MemoryAudit())
    clock.advance(2 * registry.KEEP_S)
    now = clock.now()
    store.interventions += [intervention("old", at=now - registry.KEEP_S - 1.0), intervention("new", at=now)]
    task = asyncio.create_task(registry.forget_old(store, clock))
    await asyncio.sleep(0)
    task.cancel()
    assert [one.request for one in store.interventions] == ["new"]


async def current(store: Store) -> list[int]:
    return [one.pack.version for one in await store.packs() if one.is_current]


async def test_the_last_pushed_version_is_current_and_all_stay(store: Store) -> None:
    """A version that is pushed again is current again, and is stored once."""
    for number in (1, 2, 1):
        await store.push(version(number), ACT)
    assert [(one.pack, one.digest) for one in await store.packs()] == [
        (version(number), version(number).digest) for number in (2, 1)
    ]
    assert await current(store) == [1]


async def test_a_version_never_changes(store: Store) -> None:
    """Other rules under a stored version are refused, and the stored one stays current."""
    await store.push(version(1), ACT)
    with pytest.raises(Conflict, match="raise its version"):
        await store.push(version(1, Mode.OBSERVE), ACT)
    assert [one.pack.mode for one in await store.packs()] == [Mode.ENFORCE]


async def test_a_new_version_is_above_all_others(store: Store) -> None:
    """A version that is new and lower is refused, so that a roll back always leads to older rules."""
    await store.push(version(5), ACT)
    with pytest.raises(Conflict, match="above"):
        await store.push(version(4), ACT)
    assert await current(store) == [5]


async def test_a_roll_back_returns_to_the_version_below_or_to_a_named_one(store: Store) -> None:
    """Said twice it goes back twice, never forth; without a lower version there is nothing to return to."""
    await store.push(version(1), ACT)
    assert not await store.choose("own", None, ACT)
    await store.push(version(2), ACT)
    await store.push(version(3), ACT)
    assert await store.choose("own", None, ACT)
    assert await current(store) == [2]
    assert await store.choose("own", None, ACT)
    assert await current(store) == [1]
    assert not await store.choose("own", None, ACT)
    assert await store.choose("own", 3, ACT)
    assert await current(store) == [3]
    assert not await store.choose("own", 9, ACT)


async def test_the_floor_is_the_last_one_put(store: Store) -> None:
    """None at first, and none again."""
    assert await store.floor() == ()
    for packs in (("a", "b"), ()):
        await store.put_floor(packs, ACT)
        assert await store.floor() == packs


async def test_shipped_packs_are_seeded_once(store: Store) -> None:
    """A pack that a platform has under that name stays as it is."""
    own = Pack(id="secrets", version=7)
    await store.push(own, ACT)
    for _ in range(2):
        await registry.seed(store, 6.0)
    assert {one.pack.id for one in await store.packs()} == set(shipped.NAMES)
    assert [one.pack for one in await store.packs() if one.pack.id == "secrets"] == [own]


@pytest.mark.integration
async def test_interventions_are_counted_by_rule_and_asked_for_by_each_field(database: Database) -> None:
    """Stored once, newest first; a tenant's, a pack's with or without its version, a rule's, a time's."""
    ledger, store = PostgresLedger(database), PostgresPacks(database)
    told = [intervention("r1", 0), intervention("r1", 1), intervention("r2", tenant="beta", rule="aws-key", at=9.0)]
    for _ in range(2):
        await ledger.record(told)
    assert await store.events(Events(), 10) == (told[2], told[0], told[1])
    for which, requests in (
        (Events(tenant=TenantId("beta")), ["r2"]),
        (Events(rule="jwt"), ["r1", "r1"]),
        (Events(pack="secrets"), ["r2", "r1", "r1"]),
        (Events(pack="secrets@3"), []),
        (Events(since=6.0), ["r2"]),
        (Events(until=9.0), ["r1", "r1"]),
        (Events(request="r2"), ["r2"]),
    ):
        assert [one.request for one in await store.events(which, 10)] == requests, which
    await ledger.record([intervention("r1", 2, rule="aws-key")])
    counts = {(str(one.tenant), one.rule): one for one in await store.counts(Events())}
    assert {name: (one.interventions, one.requests) for name, one in counts.items()} == {
        ("acme", ""): (3, 1),
        ("acme", "jwt"): (2, 1),
        ("acme", "aws-key"): (1, 1),
        ("beta", ""): (1, 1),
        ("beta", "aws-key"): (1, 1),
    }
    assert (counts["acme", "jwt"].stage, counts["acme", "jwt"].wanted) == (Where.OUTPUT, Action.BLOCK)
    await store.forget(9.0)
    assert len(await store.events(Events(), 10)) == 4


@pytest.mark.integration
async def test_texts_end_with_their_time_and_with_a_deletion(database: Database) -> None:
    """Stored once, shown with their interventions; swept when their time is over; none comes after a deletion."""
    ledger, store, expiring = PostgresLedger(database), PostgresPacks(database), PostgresExpiringTexts(database)
    told = [intervention("r1"), intervention("r2", tenant="beta", at=9.0), intervention("job_3-1", at=6.0)]
    texts = [evidence.sealed(one, MatchText("x"), TenantKey(b"i" * 16, b"k" * 32), 60.0) for one in told]
    await ledger.record(told)
    for _ in range(2):
        await ledger.keep(texts)
    assert await store.texts(Events(), 10) == tuple((told[at], texts[at]) for at in (1, 2, 0))
    assert await store.texts(Events(tenant=TenantId("beta")), 10) == ((told[1], texts[1]),)
    assert [one.owner for one in await expiring.expired(told[0].at + 60.0, 9)] == ["r1"]
    await expiring.forget(["r1", "r2"], told[0].at + 60.0)
    assert [one.request for one, _ in await store.texts(Events(), 10)] == ["r2", "job_3-1"]
    deletions = PostgresDeletions(database)
    for tenant, scope, left in (
        ("acme", Scope(TenantId("acme"), request="job_3"), ["r2"]),
        ("beta", Scope(TenantId("beta"), before=50.0), []),
    ):
        new = Deletion(DeletionId(0), scope, 50.0, "k1", 10.0, (scope.request,) if scope.request else None)
        deletion = await deletions.begin(new, Act(who="k1", what="privacy.delete", target=tenant, at=10.0))
        await PostgresErasing(database).stop(deletion, 60.0, 10)
        await ledger.keep(texts)
        assert [one.request for one, _ in await store.texts(Events(), 10) if one.request != "r1"] == left
        found = await deletions.find(deletion.id)
        assert found is not None
        assert found.counts.texts == 1


@pytest.mark.integration
async def test_texts_above_their_tenants_bound_are_dropped_and_counted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first are kept, whatever comes in one delivery or twice; another tenant's have a bound of their own."""
    monkeypatch.setattr(safety, "MOST_KEPT", 3)
    dropped = list[int]()
    ledger, key = PostgresLedger(database, dropped.append), TenantKey(b"i" * 16, b"k" * 32)
    mine = [evidence.sealed(intervention("r", at), MatchText("x"), key, 60.0) for at in range(5)]
    other = evidence.sealed(intervention("s", tenant="beta"), MatchText("x"), key, 60.0)
    for texts in (mine[:2], [*mine[1:4], other], mine[4:]):
        await ledger.keep(texts)
    rows = await database.rows("select tenant, number from intervention_text order by tenant, number")
    assert [tuple(row) for row in rows] == [("acme", 0), ("acme", 1), ("acme", 2), ("beta", 0)]
    assert dropped == [0, 1, 1]
