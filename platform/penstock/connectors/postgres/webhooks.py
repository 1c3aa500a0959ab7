"""Webhook endpoints and deliveries in Postgres; secrets are sealed before they reach a row.

All times are the database's: no gateway's or runner's clock decides what is due.
"""

import secrets as chance
from collections.abc import Mapping, Sequence
from contextlib import suppress

from asyncpg import Record

from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import Conflict, OverLimit, StoreUnavailable
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.jobs.ids import EndpointId, EventId, RunnerId
from penstock.domain.jobs.webhook import (
    KEPT_S,
    MOST_DUE,
    MOST_ENDPOINTS,
    MOST_KEPT,
    MOST_TESTS,
    TESTS_S,
    ClaimedDelivery,
    Delivery,
    DeliveryId,
    DeliveryState,
    EndedAttempt,
    Endpoint,
    EndpointChange,
    Event,
    OffReason,
    TurnedOff,
    WaitingEndpoint,
)
from penstock.sealing.keys import Keys
from penstock.sealing.segments import Opening, Sealing, Subject, TenantKey, Unreadable, header_of, key_id

_SQL = load("webhooks")
_FORGOTTEN_AT_ONCE = 10_000
_KIND = "webhooks"


class PostgresEndpoints:
    """``by`` is the key that acts: each change of an endpoint has its row of the audit log in the same statement."""

    def __init__(self, database: Database, keys: Keys) -> None:
        self._database, self._keys = database, keys

    async def create(self, tenant: TenantId, by: KeyId, url: str, events: Sequence[str], secret: bytes) -> Endpoint:
        """Raises ``Conflict`` if the tenant has an endpoint of this URL, or has ``MOST_ENDPOINTS``."""
        name = EndpointId(f"we_{chance.token_hex(16)}")
        sealed = seal(await self._keys.newest(tenant), tenant, name, secret)
        async with self._database.transaction() as session:
            await session.run(_SQL["alone"], tenant)
            row = await session.row(_SQL["create"], name, tenant, url, list(events), sealed, MOST_ENDPOINTS, by)
        if row is None:
            raise Conflict(f"A tenant has {MOST_ENDPOINTS} webhook endpoints at most: delete one first.")
        return _endpoint(row)

    async def of_tenant(self, tenant: TenantId) -> tuple[Endpoint, ...]:
        return tuple(map(_endpoint, await self._database.rows(_SQL["of_tenant"], tenant)))

    async def find(self, tenant: TenantId, named: str) -> Endpoint | None:
        """Return the endpoint with this id or URL."""
        row = await self._database.row(_SQL["one"], tenant, named)
        return None if row is None else _endpoint(row)

    async def change(self, tenant: TenantId, by: KeyId, endpoint: EndpointId, to: EndpointChange) -> Endpoint | None:
        events = None if to.events is None else list(to.events)
        async with self._database.transaction() as session:
            row = await session.row(_SQL["change"], tenant, endpoint, to.url, events, to.is_on, by)
            if row is not None and not row["is_on"]:
                await session.run(_SQL["end_due"], [endpoint])
        return None if row is None else _endpoint(row)

    async def rotate(
        self, tenant: TenantId, by: KeyId, endpoint: EndpointId, secret: bytes, overlap_s: float
    ) -> Endpoint | None:
        """Exchange the secret; the former one signs, too, for ``overlap_s``."""
        sealed = seal(await self._keys.newest(tenant), tenant, endpoint, secret)
        row = await self._database.row(_SQL["rotate"], tenant, endpoint, sealed, overlap_s, by)
        return None if row is None else _endpoint(row)

    async def delete(self, tenant: TenantId, by: KeyId, endpoint: EndpointId) -> bool:
        return await self._database.row(_SQL["delete"], tenant, endpoint, by, TESTS_S) is not None

    async def test(self, tenant: TenantId, endpoint: EndpointId) -> bool:
        """Tell the endpoint alone of a test event; False if there is none, or it is off.

        ``OverLimit`` after ``MOST_TESTS`` of the tenant in ``TESTS_S``.
        """
        async with self._database.transaction() as session:
            await session.run(_SQL["alone"], tenant)
            (lately,) = await session.rows(_SQL["tests"], tenant, TESTS_S)
            if lately["tests"] >= MOST_TESTS:
                says = f"a tenant may send {MOST_TESTS} test events in {TESTS_S:.0f} s"
                raise OverLimit(says, retry_after_s=max(1.0, lately["wait_s"]), reason="webhook_tests")
            return await session.row(_SQL["test"], tenant, endpoint) is not None

    async def delivery(self, endpoint: EndpointId, event: EventId) -> int:
        row = await self._database.row(_SQL["delivery"], endpoint, event)
        return 0 if row is None else int(row["id"])

    async def deliveries(
        self, endpoint: EndpointId, state: str, after: int, limit: int, *, newest_first: bool = True
    ) -> tuple[Delivery, ...]:
        """Return an endpoint's deliveries beyond ``after`` (0: from the first), of one state or of all (empty)."""
        rows = await self._database.rows(_SQL["deliveries"], endpoint, state, after, newest_first, limit)
        return tuple(map(_delivery, rows))

    async def replay(self, endpoint: EndpointId, *, delivery: int = 0, since: float = 0.0) -> int:
        """Make one ended delivery due anew, or without one all failed since then; return the number."""
        return len(await self._database.rows(_SQL["replay"], endpoint, delivery, since))


class PostgresDeliveries:
    """The deliveries that runners send: claimed under an epoch, ended only by the holder."""

    def __init__(self, database: Database, keys: Keys) -> None:
        self._database, self._keys = database, keys

    async def take_over(self) -> int:
        """Make due what runners without a row were sending; return the number."""
        return len(await self._database.rows(_SQL["take_over"]))

    async def waiting(self) -> tuple[WaitingEndpoint, ...]:
        """Return the endpoints with a delivery due now; its cost grows with endpoints, not with deliveries."""
        return tuple(
            WaitingEndpoint(
                endpoint=EndpointId(row["id"]),
                tenant=TenantId(row["tenant"]),
                late_s=float(row["late_s"]),
                is_failing=row["is_failing"],
            )
            for row in await self._database.rows(_SQL["waiting"])
        )

    async def claim(self, runner: RunnerId, wanted: Mapping[EndpointId, int]) -> tuple[ClaimedDelivery, ...]:
        """Take up to the wanted number of each endpoint's due deliveries, the earliest first."""
        rows = await self._database.rows(_SQL["claim"], runner, list(wanted), list(wanted.values()))
        try:
            return tuple([await self._claimed(row) for row in rows])
        except StoreUnavailable:  # the secrets' keys can't be had: others may send what was taken
            await self._database.rows(_SQL["give_back"], [row["id"] for row in rows], [row["epoch"] for row in rows])
            raise

    async def end(self, ended: Sequence[EndedAttempt]) -> tuple[frozenset[DeliveryId], tuple[TurnedOff, ...]]:
        """Note attempts' ends; return the deliveries that were still held, and the endpoints turned off by them."""
        async with self._database.transaction() as session:
            await session.rows(_SQL["hold"], [one.id for one in ended])
            rows = await session.rows(_SQL["end"], *_columns(ended))
            off = await _learn(session, {one.id: one for one in ended}, rows)
        return frozenset(DeliveryId(row["id"]) for row in rows), off

    async def give_back(self, held: Sequence[ClaimedDelivery]) -> None:
        """Make unfinished deliveries due for other runners; their attempt does not count."""
        await self._database.rows(_SQL["give_back"], [one.id for one in held], [one.epoch for one in held])

    async def forget(self, most_kept: int = MOST_KEPT) -> int:
        """Remove some ended deliveries: ``KEPT_S`` old, or beyond an endpoint's newest; return their number."""
        row = await self._database.row(_SQL["forget"], KEPT_S, _FORGOTTEN_AT_ONCE, most_kept)
        return int(row["gone"]) if row else 0

    async def turn_off_overfull(self, most_due: int = MOST_DUE) -> tuple[TurnedOff, ...]:
        """Turn endpoints off with more than ``most_due`` deliveries to send."""
        async with self._database.transaction() as session:
            return await _turned_off(session, await session.rows(_SQL["overfull"], most_due))

    async def _claimed(self, row: Record) -> ClaimedDelivery:
        tenant, endpoint = TenantId(row["tenant"]), EndpointId(row["endpoint"])
        opened = [
            secret
            for sealed in (row["secret"], row["previous"])
            if (secret := await self._open(tenant, endpoint, sealed)) is not None
        ]
        return ClaimedDelivery(
            id=DeliveryId(row["id"]),
            epoch=row["epoch"],
            attempt=row["attempt"],
            event=_event(row),
            endpoint=endpoint,
            tenant=tenant,
            url=row["url"],
            secrets=tuple(opened),
        )

    async def _open(self, tenant: TenantId, endpoint: EndpointId, sealed: bytes) -> bytes | None:
        """Return the secret; None if no key opens it, or there is none. The newest key seals what it did not yet."""
        if not sealed:
            return None
        try:
            header, newest = header_of(sealed), await self._keys.newest(tenant)
            secret = _opened(await self._keys.opening(tenant, header), Subject(_KIND, tenant, endpoint), sealed, header)
        except Unreadable:
            return None
        if key_id(header) != newest.id:
            await self._database.rows(_SQL["reseal"], endpoint, sealed, seal(newest, tenant, endpoint, secret))
        return secret


def _opened(secrets: Sequence[bytes], subject: Subject, sealed: bytes, header: bytes) -> bytes:
    for secret in secrets:
        with suppress(Unreadable):
            return Opening(secret, subject, header).open(0, sealed[len(header) :], is_last=True)
    raise Unreadable


def seal(key: TenantKey, tenant: TenantId, endpoint: EndpointId, secret: bytes) -> bytes:
    sealing = Sealing(key, Subject(_KIND, tenant, endpoint))
    return sealing.header + sealing.close(secret, is_last=True)


def _columns(ended: Sequence[EndedAttempt]) -> tuple[list[object], ...]:
    rows = [
        (one.id, one.epoch, one.next.verdict, one.answer.status, one.answer.error or "", one.next.delay_s)
        for one in ended
    ]
    return tuple(map(list, zip(*rows, strict=True)))


async def _learn(
    session: Session, ended: Mapping[DeliveryId, EndedAttempt], rows: Sequence[Record]
) -> tuple[TurnedOff, ...]:
    """Note what the held attempts say of their endpoints; end the rest of those that are off, and tell their owners."""
    if not rows:
        return ()
    nexts = [ended[row["id"]].next for row in rows]
    learned = await session.rows(
        _SQL["learn"],
        [row["endpoint"] for row in rows],
        [one.verdict for one in nexts],
        [row["created_at"] for row in rows],
        [one.hold_s for one in nexts],
    )
    return await _turned_off(session, [row for row in learned if row["is_turned_off"]])


async def _turned_off(session: Session, off: Sequence[Record]) -> tuple[TurnedOff, ...]:
    if off:
        await session.run(_SQL["end_due"], [row["id"] for row in off])
    for row in off:
        await session.run(_SQL["disabled"], row["tenant"], row["id"])
    return tuple(
        TurnedOff(endpoint=EndpointId(row["id"]), tenant=TenantId(row["tenant"]), reason=OffReason(row["off_reason"]))
        for row in off
    )


def _endpoint(row: Record) -> Endpoint:
    return Endpoint(
        id=EndpointId(row["id"]),
        tenant=TenantId(row["tenant"]),
        url=row["url"],
        events=tuple(row["events"]),
        is_on=row["is_on"],
        off_reason=row["off_reason"],
        failing_since=row["failing_since"],
        previous_until=row["previous_until"],
        created_at=row["created_at"],
    )


def _event(row: Record) -> Event:
    return Event(id=EventId(row["event"]), type=row["type"], object=row["object"], created_at=row["told_at"])


def _delivery(row: Record) -> Delivery:
    return Delivery(
        id=DeliveryId(row["id"]),
        event=_event(row),
        endpoint=EndpointId(row["endpoint"]),
        state=DeliveryState(row["state"]),
        attempt=row["attempt"],
        next_at=row["next_at"],
        last_status=row["last_status"],
        last_error=row["last_error"],
        ended_at=row["ended_at"],
    )
