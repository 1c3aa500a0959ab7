"""Webhook endpoints and deliveries on a real Postgres: told with what they tell of, claimed, ended by the holder."""

import asyncio

import pytest

from penstock.connectors.postgres.audit import PostgresAudit
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.webhooks import PostgresDeliveries, PostgresEndpoints
from penstock.domain.errors import Conflict
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.jobs.ids import EndpointId, RunnerId
from penstock.domain.jobs.webhook import (
    MOST_ENDPOINTS,
    Answer,
    ClaimedDelivery,
    DeliveryState,
    EndedAttempt,
    Endpoint,
    EndpointChange,
    Next,
    OffReason,
    SendError,
    Verdict,
)
from tests.support.sealing import FixedKeys
from tests.support.webhooks.deliverer import pass_time

pytestmark = pytest.mark.integration
SHOP, OTHER = TenantId("shop"), TenantId("other")
SECRET = b"s" * 32
BY = KeyId("key-1")
ONE, TWO = RunnerId(1), RunnerId(2)
"""Two runners."""
BROKEN = Answer(status=500, error=SendError.STATUS)


class Store(PostgresEndpoints):
    """Both halves of the store, and events that other statements tell."""

    def __init__(self, database: Database) -> None:
        self.database, self.keys = database, FixedKeys()
        super().__init__(database, self.keys)
        self.due = PostgresDeliveries(database, self.keys)

    async def endpoint(self, name: str = "a", events: tuple[str, ...] = ("*",), tenant: TenantId = SHOP) -> Endpoint:
        return await self.create(tenant, BY, f"https://{name}.example/", events, SECRET)

    async def tell(self, kind: str = "batch.completed", endpoint: str = "", tenant: TenantId = SHOP) -> None:
        await self.database.rows("select tell($1, $2, 'batch_1', $3)", tenant, kind, endpoint)

    async def claim(self, runner: RunnerId = ONE, most: int = 9) -> tuple[ClaimedDelivery, ...]:
        waiting = await self.due.waiting()
        return await self.due.claim(runner, {one.endpoint: most for one in waiting})

    async def pass_time(self, seconds: float) -> None:
        await pass_time(self.database, seconds)

    async def state(self, endpoint: EndpointId) -> list[tuple[str, int, str]]:
        found = await self.deliveries(endpoint, "", 0, 99, newest_first=False)
        return [(one.state, one.attempt, one.last_error) for one in found]


def end(one: ClaimedDelivery, verdict: Verdict, answer: Answer = BROKEN, **more: float) -> EndedAttempt:
    if verdict is Verdict.DELIVERED:
        answer = Answer(status=200)
    return EndedAttempt(id=one.id, epoch=one.epoch, answer=answer, next=Next(verdict=verdict, **more))


@pytest.fixture
async def store(database: Database) -> Store:
    await database.rows("insert into runner (name, seen_at, started_at) select 'r', 0, 0 from generate_series(1, 9)")
    return Store(database)


async def test_an_event_goes_to_those_that_want_it(store: Store) -> None:
    """All types, one type, none but what names the endpoint; nothing for other tenants or without receivers."""
    every, batches = await store.endpoint("a"), await store.endpoint("b", ("batch.completed",))
    named, foreign = await store.endpoint("c", ()), await store.endpoint("a", tenant=OTHER)
    await store.tell("batch.completed")
    await store.tell("job.failed", named.id)
    await store.tell("job.failed", foreign.id)
    got = [(one.endpoint, one.event.type) for one in await store.claim()]
    assert sorted(got) == sorted(
        [
            (every.id, "batch.completed"),
            (batches.id, "batch.completed"),
            (every.id, "job.failed"),
            (named.id, "job.failed"),
            (every.id, "job.failed"),
        ]
    )
    await store.tell(tenant=TenantId("nobody"))
    assert (await store.database.rows("select count(*) as n from webhook_event"))[0]["n"] == 3


async def test_an_event_is_told_with_its_transaction_or_not_at_all(store: Store) -> None:
    """What is rolled back was never told."""
    await store.endpoint()

    async def rolled_back() -> None:
        async with store.database.transaction() as session:
            await session.run("select tell($1, 'batch.failed', 'batch_1', '')", SHOP)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await rolled_back()
    assert await store.claim() == ()


async def test_a_delivery_has_one_holder(store: Store) -> None:
    """Eight runners at once claim a hundred deliveries: each of them once."""
    await store.endpoint()
    for _ in range(100):
        await store.tell()
    claimed = await asyncio.gather(*(store.claim(RunnerId(runner), 20) for runner in range(1, 9)))
    ids = [one.id for mine in claimed for one in mine]
    assert len(ids) == len(set(ids)) == 100


async def test_only_the_holder_ends_a_delivery(store: Store) -> None:
    """After its runner was taken for dead another one sends it; the first one's late end changes nothing."""
    endpoint = await store.endpoint()
    await store.tell()
    (frozen,) = await store.claim(ONE)
    await store.database.rows("delete from runner where id = $1", ONE)
    assert await store.due.take_over() == 1
    assert await store.due.take_over() == 0
    (again,) = await store.claim(TWO)
    assert (again.event.id, again.attempt) == (frozen.event.id, 2)
    assert await store.due.end([end(frozen, Verdict.DELIVERED)]) == (frozenset(), ())
    assert await store.state(endpoint.id) == [(DeliveryState.SENDING, 2, "")]
    held, _ = await store.due.end([end(again, Verdict.DELIVERED)])
    assert held == {again.id}
    assert await store.state(endpoint.id) == [(DeliveryState.DELIVERED, 2, "")]


async def test_what_is_given_back_costs_no_attempt(store: Store) -> None:
    """A runner that ends in order leaves the same attempt to the next."""
    await store.endpoint()
    await store.tell()
    await store.due.give_back(await store.claim(ONE))
    (again,) = await store.claim(TWO)
    assert (again.attempt, again.epoch) == (1, 2)


async def test_retries_wait_for_their_time(store: Store) -> None:
    """A failed attempt is due again after its delay, and a receiver's silence holds back all of its deliveries."""
    endpoint = await store.endpoint()
    await store.tell()
    await store.due.end([end(one, Verdict.RETRIED, delay_s=300.0) for one in await store.claim()])
    assert await store.claim() == ()
    await store.pass_time(301.0)
    (again,) = await store.claim()
    assert again.attempt == 2
    await store.due.end([end(again, Verdict.RETRIED, delay_s=60.0, hold_s=60.0)])
    await store.tell()
    assert await store.claim() == ()
    await store.pass_time(61.0)
    assert len(await store.claim()) == 2
    (seen,) = await store.of_tenant(SHOP)
    assert (seen.id, seen.failing_since > 0) == (endpoint.id, True)


async def test_an_endpoint_that_fails_a_whole_schedule_is_turned_off(store: Store) -> None:
    """Its other deliveries end, nothing more is told to it, and its owner's other endpoint hears of it."""
    broken, other = await store.endpoint("a"), await store.endpoint("b", ("webhook.disabled",))
    await store.tell()
    await store.tell()
    first, _ = await store.claim()
    _, off = await store.due.end([end(first, Verdict.FAILED)])
    assert [(one.endpoint, one.reason) for one in off] == [(broken.id, OffReason.FAILING)]
    found = await store.find(SHOP, broken.id)
    assert found
    assert (found.is_on, found.off_reason) == (False, "failing")
    (told,) = await store.claim()
    assert (told.endpoint, told.event.type, told.event.object) == (other.id, "webhook.disabled", broken.id)
    await store.tell()
    assert await store.claim() == ()


async def test_an_endpoint_that_answered_meanwhile_stays_on(store: Store) -> None:
    """A receiver that fails on one event alone loses that event only."""
    endpoint = await store.endpoint()
    await store.tell()
    await store.tell()
    poison, fine = await store.claim()
    await store.due.end([end(fine, Verdict.DELIVERED)])
    _, off = await store.due.end([end(poison, Verdict.FAILED)])
    found = await store.find(SHOP, endpoint.id)
    assert off == ()
    assert found
    assert found.is_on


async def test_gone_turns_off_at_once(store: Store) -> None:
    """410 ends the delivery and the endpoint, and is told once."""
    endpoint = await store.endpoint()
    await store.tell()
    await store.tell()
    both = await store.claim()
    _, off = await store.due.end([end(one, Verdict.GONE) for one in both])
    assert [one.reason for one in off] == [OffReason.GONE]
    found = await store.find(SHOP, endpoint.id)
    assert found
    assert (found.is_on, found.off_reason) == (False, "gone")


async def test_turned_off_and_on_by_its_owner(store: Store) -> None:
    """Off, its due deliveries end; an open attempt that fails is not tried again; on, failed ones can be replayed."""
    endpoint = await store.endpoint()
    await store.tell()
    (held,) = await store.claim()
    await store.tell()
    off = await store.change(SHOP, BY, endpoint.id, EndpointChange(is_on=False))
    assert off
    assert off.off_reason == "owner"
    await store.due.end([end(held, Verdict.RETRIED, delay_s=5.0)])
    assert [state for state, *_ in await store.state(endpoint.id)] == ["failed", "failed"]
    assert await store.test(SHOP, endpoint.id) is False
    await store.change(SHOP, BY, endpoint.id, EndpointChange(is_on=True))
    assert await store.replay(endpoint.id) == 2
    assert sorted(one.attempt for one in await store.claim()) == [1, 1]


async def test_a_delivered_one_is_replayed_by_name_alone(store: Store) -> None:
    """Under the same id; what waits or is being sent is not replayed."""
    endpoint = await store.endpoint()
    await store.tell()
    (held,) = await store.claim()
    assert await store.replay(endpoint.id, delivery=held.id) == 0
    await store.due.end([end(held, Verdict.DELIVERED)])
    assert await store.replay(endpoint.id) == 0
    assert await store.replay(endpoint.id, delivery=held.id) == 1
    (again,) = await store.claim()
    assert again.event == held.event


async def test_secrets_are_sealed_and_sign_both_for_a_time(store: Store) -> None:
    """No row holds a secret; after a rotation the former one signs, too, until its end."""
    endpoint = await store.endpoint()
    await store.rotate(SHOP, BY, endpoint.id, b"n" * 32, 3600.0)
    await store.tell()
    (held,) = await store.claim()
    assert held.secrets == (b"n" * 32, SECRET)
    row = await store.database.row("select secret, previous_secret from webhook_endpoint")
    assert row
    assert SECRET not in row["secret"] + row["previous_secret"]
    assert SECRET[:8] not in row["previous_secret"]
    await store.pass_time(3601.0)
    await store.tell()
    assert {one.secrets for one in await store.claim()} == {(b"n" * 32,)}


async def test_secrets_survive_exchanges_of_the_platforms_key(store: Store) -> None:
    """What an older key sealed is sealed anew when it is used; what no key opens leaves the delivery without."""
    await store.endpoint()
    for key in (b"l" * 32, b"m" * 32):
        store.keys.secrets = [key, store.keys.secrets[0]]
        await store.tell()
        (held,) = await store.claim()
        assert held.secrets == (SECRET,)
    store.keys.secrets = [b"x" * 32]
    await store.tell()
    (held,) = await store.claim()
    assert held.secrets == ()


async def test_endpoints_are_bounded_and_unique(store: Store) -> None:
    """The same URL twice is a conflict; of twenty creates at once the bound's number is accepted."""
    await store.endpoint("same")
    with pytest.raises(Conflict, match="webhook endpoint exists"):
        await store.endpoint("same")
    tried = await asyncio.gather(*(store.endpoint(f"e{i}") for i in range(20)), return_exceptions=True)
    refused = [one for one in tried if isinstance(one, Conflict)]
    assert len(tried) - len(refused) == MOST_ENDPOINTS - 1
    assert len(await store.of_tenant(SHOP)) == MOST_ENDPOINTS


async def test_other_tenants_find_nothing(store: Store) -> None:
    """By id and by URL, to read, change, rotate, test and delete."""
    endpoint = await store.endpoint()
    assert await store.find(OTHER, endpoint.id) is None
    assert await store.find(OTHER, endpoint.url) is None
    assert await store.change(OTHER, BY, endpoint.id, EndpointChange(is_on=False)) is None
    assert await store.rotate(OTHER, BY, endpoint.id, SECRET, 0.0) is None
    assert not await store.test(OTHER, endpoint.id)
    assert not await store.delete(OTHER, BY, endpoint.id)
    assert await store.find(SHOP, endpoint.url) == endpoint


async def test_a_deleted_endpoint_takes_its_deliveries_along(store: Store) -> None:
    """An attempt that ends after it was fenced."""
    endpoint = await store.endpoint()
    await store.tell()
    (held,) = await store.claim()
    assert await store.delete(SHOP, BY, endpoint.id)
    assert await store.due.end([end(held, Verdict.DELIVERED)]) == (frozenset(), ())
    assert await store.state(endpoint.id) == []


async def test_pages_and_states(store: Store) -> None:
    """Deliveries are listed newest first or oldest first, from any of them on, of one state."""
    endpoint = await store.endpoint()
    for _ in range(5):
        await store.tell()
    await store.due.end([end(one, Verdict.DELIVERED) for one in await store.claim(ONE, 2)])
    newest = await store.deliveries(endpoint.id, "", 0, 3)
    ids = [one.id for one in newest]
    assert ids == sorted(ids, reverse=True)
    assert [one.id for one in await store.deliveries(endpoint.id, "", ids[-1], 9)] == [ids[-1] - 1, ids[-1] - 2]
    assert len(await store.deliveries(endpoint.id, "delivered", 0, 9)) == 2
    assert [one.id for one in await store.deliveries(endpoint.id, "", 0, 1, newest_first=False)] == [ids[-1] - 2]


async def test_old_deliveries_are_forgotten(store: Store) -> None:
    """Ended ones after thirty days, with their events; what still waits stays."""
    await store.endpoint()
    await store.tell()
    await store.due.end([end(one, Verdict.DELIVERED) for one in await store.claim()])
    await store.tell()
    await store.pass_time(31 * 86_400.0)
    assert await store.due.forget() == 1
    await store.due.forget()
    rows = await store.database.rows("select count(*) as n from webhook_event")
    assert (rows[0]["n"], len(await store.claim())) == (1, 1)


async def test_an_endpoints_rows_have_a_bound(store: Store) -> None:
    """Ended deliveries beyond its newest go at once, with events that nobody else has; a long backlog turns it off."""
    first, second = await store.endpoint("a"), await store.endpoint("b")

    async def events() -> int:
        rows = await store.database.rows("select count(*) as n from webhook_event")
        return int(rows[0]["n"])

    for _ in range(3):
        await store.tell()
    claimed = await store.claim(ONE, 3)
    await store.due.end([end(one, Verdict.DELIVERED) for one in claimed if one.endpoint == first.id])
    assert (await store.due.forget(most_kept=1), await events()) == (2, 3)
    await store.due.end([end(one, Verdict.DELIVERED) for one in claimed if one.endpoint == second.id])
    assert (await store.due.forget(most_kept=1), await events()) == (2, 1)
    for _ in range(4):
        await store.tell()
    assert await store.due.turn_off_overfull(4) == ()
    await store.delete(SHOP, BY, first.id)
    assert await events() == 5
    assert [(one.endpoint, one.reason) for one in await store.due.turn_off_overfull(3)] == [
        (second.id, OffReason.BACKLOG)
    ]
    await store.tell()
    assert {one.state for one in await store.deliveries(second.id, "", 0, 9)} == {"delivered", "failed"}
    await store.delete(SHOP, BY, second.id)
    assert await events() == 0


async def test_each_change_of_an_endpoint_has_its_row(store: Store) -> None:
    """Its kind and the key that made it, no address and no secret; what changed nothing has none."""
    endpoint = await store.endpoint()
    to = EndpointChange(url="https://b.example/", events=("job.failed",), is_on=False)
    for tenant in (SHOP, OTHER):
        await store.change(tenant, BY, endpoint.id, to)
        await store.rotate(tenant, BY, endpoint.id, SECRET, 0.0)
        await store.delete(tenant, BY, endpoint.id)
    acts = await PostgresAudit(store.database).newest(99)
    assert {(act.who, act.target, act.tenant) for act in acts} == {(BY, endpoint.id, SHOP)}
    assert [(act.what, act.detail) for act in reversed(acts)] == [
        ("webhook.create", "*"),
        ("webhook.change", "url, events=job.failed, enabled=false"),
        ("webhook.rotate", ""),
        ("webhook.delete", ""),
    ]
