"""Where gateways tell their seconds: in memory and in a real Postgres."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import pytest

from penstock.connectors.postgres.arms import PostgresArms
from penstock.connectors.postgres.database import Database
from penstock.control.rollout.evidence import EvidenceReader, EvidenceStore
from penstock.domain.clock import SystemClock
from penstock.domain.errors import Conflict
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.rollout.arms import ArmSecond, RecentRequests
from penstock.domain.serving.agreement import Agreement, Counts, Pair, Reported
from tests.support.gateways.simulated_arms import World
from tests.twins.arms import MemoryArms


class Store(EvidenceStore, Protocol):
    async def tell(self, second: ArmSecond) -> None: ...

    async def asked(self, alias: Alias, now: float, over_s: float) -> RecentRequests: ...

    async def agreements(self, alias: Alias, now: float, over_s: float) -> Sequence[Reported]: ...


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return MemoryArms(SystemClock())
    return PostgresArms(request.getfixturevalue("database"))


def seconds(count: int) -> Sequence[ArmSecond]:
    return list(World(seed=1, per_s=20.0, share=0.2).seconds(count))


async def test_what_was_told_comes_back_whole_and_in_order(store: Store) -> None:
    """Each second as it was told, from the last one on that a reader has."""
    told = seconds(5)
    for one in told:
        await store.tell(one)
    found = await store.since(0, 60.0)
    assert [one.second for one in found] == told
    assert [one.second for one in await store.since(found[2].id, 60.0)] == told[3:]
    assert await store.since(found[-1].id, 60.0) == ()


async def test_what_is_old_is_not_read_and_can_be_forgotten(store: Store) -> None:
    """A controller that begins reads the last minutes alone."""
    await store.tell(seconds(1)[0])
    assert tuple(await store.since(0, 0.0)) == ()
    assert len(await store.since(0, 60.0)) == 1
    await store.forget(60.0)
    assert len(await store.since(0, 60.0)) == 1
    await store.forget(-1.0)
    assert tuple(await store.since(0, 60.0)) == ()


async def test_comparisons_of_rules_are_added_up_and_no_judge_reads_them(store: Store) -> None:
    """Over gateways, by pair, of the alias that is asked for; large prices too."""
    (plain,) = seconds(1)
    pair = Pair(Alias("auto"), "rest", VersionId("big@1"), "short", VersionId("small@2"))
    other, foreign = pair._replace(rule="last"), pair._replace(alias=Alias("more"))
    counts = Counts(
        answered=9,
        pairs=6,
        failed=1,
        untold=1,
        forms=2,
        forms_agreed=1,
        texts=2,
        texts_agreed=1,
        alike=150,
        paid=1 << 40,
    )
    who = [(pair, "acme"), (pair, "beta"), (other, "acme"), (foreign, "acme")]
    told = tuple(Agreement(pair=one, tenant=TenantId(tenant), counts=counts) for one, tenant in who)
    for _ in range(2):
        await store.tell(replace(plain, arms=(), agreements=told))
    now = SystemClock().now()
    twice = counts.plus(counts)
    found = await store.agreements(Alias("auto"), now, 3600.0)
    assert [(one.pair, one.counts, one.tenants) for one in found] == [(other, twice, 1), (pair, twice.plus(twice), 2)]
    assert await store.since(0, 60.0) == ()
    await store.forget(60.0)
    assert len(await store.agreements(Alias("more"), now, 60.0)) == 1
    assert tuple(await store.agreements(Alias("none"), now, 3600.0)) == ()


async def test_requests_of_an_alias_are_those_of_the_last_minutes(store: Store) -> None:
    """Of each alias its own, added up over gateways; an uncounted minute is no time without requests."""
    clock = SystemClock()
    (plain,) = seconds(1)
    none = await store.asked(Alias("chat"), clock.now(), 3600.0)
    assert (none.requests, none.over_s >= 3600.0) == (0, True)
    await store.tell(replace(plain, asked=((Alias("chat"), 3), (Alias("exp"), 1))))
    await store.tell(replace(plain, arms=(), asked=((Alias("chat"), 4),)))
    chat, other = [await store.asked(Alias(name), clock.now(), 3600.0) for name in ("chat", "no")]
    assert (chat.requests, other.requests) == (7, 0)
    assert chat.over_s <= 120.0
    assert len(await store.since(0, 60.0)) == 1
    await store.forget(60.0)
    assert (await store.asked(Alias("chat"), clock.now(), 60.0)).requests == 7


async def test_a_reader_takes_each_second_once(store: Store) -> None:
    """Evidence continues after the last read second, stamped by the store's clock, and leaves out impossible
    figures.
    """
    taken: list[tuple[ArmSecond, float]] = []

    def take(second: ArmSecond, at: float) -> bool:
        taken.append((second, at))
        return True

    evidence = EvidenceReader(store, take)
    first, second = seconds(2)
    await store.tell(first)
    await evidence.look(0.0)
    await store.tell(second)
    await store.tell(replace(second, number=-1))
    await evidence.look(1.0)
    assert [one.number for one, _ in taken] == [1, 2]
    assert all(one.at == int(at) for one, at in taken)
    assert evidence.left_out == 1


@pytest.mark.integration
async def test_a_body_that_is_none_of_ours_is_read_as_nothing(database: Database) -> None:
    """A gateway of another release, or a hand, can't stop the reader; what is too large is not taken."""
    for body in ("{}", "nonsense", '{"gateway": 1}', '{"gateway":"g","life":"l","number":1e400,"at":1}'):
        await database.rows("insert into arm_second (told_at, body) values (extract(epoch from now()), $1)", body)
    found = await PostgresArms(database).since(0, 60.0)
    assert [one.second for one in found] == [None] * 4
    with pytest.raises(Conflict):
        await database.rows("insert into arm_second (told_at, body) values (0, $1)", "x" * 300_000)


@pytest.mark.integration
async def test_when_it_was_told_is_the_servers_word(database: Database) -> None:
    """A row of next year would make the judges wait for it, and one of yesterday would never be read."""
    for at in (0.0, -1.0, 1e300, 4e9):
        await database.rows("insert into arm_second (told_at, body) values ($1, '{}')", at)
    found = await PostgresArms(database).since(0, 60.0)
    assert len(found) == 4
    assert all(abs(one.at - SystemClock().now()) < 60.0 for one in found)


@pytest.mark.integration
async def test_a_reader_goes_on_after_a_crash_of_the_server(database: Database) -> None:
    """The table has no write-ahead log: it is empty then, and its numbers begin at 1 again."""
    arms = PostgresArms(database)
    first, second, third = seconds(3)
    await arms.tell(first)
    await arms.tell(second)
    after = (await arms.since(0, 60.0))[-1].id
    await database.rows("truncate arm_second restart identity")
    assert await arms.since(after, 60.0) == ()
    await arms.tell(third)
    assert [(one.id < after, one.second) for one in await arms.since(after, 60.0)] == [(True, third)]
