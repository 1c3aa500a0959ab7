"""Routes of webhook endpoints and their deliveries: a tenant's own, whichever of its keys made them.

A secret is in the answer that made it and nowhere else. Receivers verify with any library of Standard Webhooks, or with
``webhooks.unwrap`` of OpenAI's SDK.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from fastapi import FastAPI, Request, Response

from penstock.domain.errors import Conflict, InvalidField, UnknownObject
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.jobs import callback_url
from penstock.domain.jobs.callback_url import Network
from penstock.domain.jobs.ids import EndpointId, EventId
from penstock.domain.jobs.webhook import (
    ALL_EVENTS,
    SECRET_BYTES,
    Delivery,
    DeliveryState,
    Endpoint,
    EndpointChange,
    EventType,
    data_of,
    secret_text,
)
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.deferred import shapes
from penstock.gateway.deferred.access import Access
from penstock.gateway.deferred.shapes import Json

WEBHOOKS = "/v1/webhooks"
OVERLAP_S, MOST_OVERLAP_S = 86_400.0, 604_800.0
"""Seconds for which a former secret signs, too: as long as a receiver's next deployment takes."""
TYPES = frozenset(EventType) - {EventType.WEBHOOK_TEST}
_PREFIX, _EVENT = "whd_", "evt_"


class EndpointStore(Protocol):
    async def create(self, tenant: TenantId, by: KeyId, url: str, events: Sequence[str], secret: bytes) -> Endpoint: ...
    async def of_tenant(self, tenant: TenantId) -> tuple[Endpoint, ...]: ...
    async def find(self, tenant: TenantId, named: str) -> Endpoint | None: ...
    async def change(
        self, tenant: TenantId, by: KeyId, endpoint: EndpointId, to: EndpointChange
    ) -> Endpoint | None: ...
    async def rotate(
        self, tenant: TenantId, by: KeyId, endpoint: EndpointId, secret: bytes, overlap_s: float
    ) -> Endpoint | None: ...
    async def delete(self, tenant: TenantId, by: KeyId, endpoint: EndpointId) -> bool: ...
    async def test(self, tenant: TenantId, endpoint: EndpointId) -> bool:
        """Raises ``OverLimit`` if the tenant asked for many lately."""
        ...

    async def delivery(self, endpoint: EndpointId, event: EventId) -> int:
        """Return the number of the event's delivery; 0 if there is none."""
        ...

    async def deliveries(
        self, endpoint: EndpointId, state: str, after: int, limit: int, *, newest_first: bool = True
    ) -> tuple[Delivery, ...]: ...
    async def replay(self, endpoint: EndpointId, *, delivery: int = 0, since: float = 0.0) -> int: ...


class _New(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    url: str
    events: list[str] = msgspec.field(default_factory=lambda: [ALL_EVENTS])


class _Change(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    url: str | None = None
    events: list[str] | None = None
    enabled: bool | None = None


class _Rotation(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    overlap_s: float = OVERLAP_S


class _Since(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Webhooks:
    """``allowed`` networks may be reached beside the public Internet."""

    store: EndpointStore
    allowed: Sequence[Network] = ()

    async def check(self, who: Principal, endpoint: EndpointId) -> None:
        """Raises ``InvalidField`` if a job can't name this endpoint."""
        found = await self.store.find(who.tenant, endpoint)
        if found is None or found.id != endpoint:
            raise InvalidField(f"there is no such endpoint: create one with POST {WEBHOOKS}", param="webhook")
        if not found.is_on:
            raise InvalidField("this endpoint is turned off: turn it on, or leave it out", param="webhook")

    async def create(self, who: Principal, given: _New) -> Json:
        callback_url.parse(given.url, self.allowed)
        secret = secrets.token_bytes(SECRET_BYTES)
        made = await self.store.create(who.tenant, who.key, given.url, _events(given.events), secret)
        return {**_endpoint(made), "secret": secret_text(secret)}

    async def change(self, who: Principal, named: str, given: _Change) -> Json:
        if given.url is not None:
            callback_url.parse(given.url, self.allowed)
        events = None if given.events is None else _events(given.events)
        to = EndpointChange(url=given.url, events=events, is_on=given.enabled)
        return _endpoint(_known(await self.store.change(who.tenant, who.key, _id(named), to)))

    async def rotate(self, who: Principal, named: str, given: _Rotation) -> Json:
        if not 0 <= given.overlap_s <= MOST_OVERLAP_S:
            raise InvalidField(f"overlap_s is from 0 to {MOST_OVERLAP_S:.0f} seconds", param="overlap_s")
        secret = secrets.token_bytes(SECRET_BYTES)
        changed = _known(await self.store.rotate(who.tenant, who.key, _id(named), secret, given.overlap_s))
        return {**_endpoint(changed), "secret": secret_text(secret)}

    async def one(self, who: Principal, named: str) -> Endpoint:
        return _known(await self.store.find(who.tenant, _id(named)))

    async def replay(self, who: Principal, named: str, *, delivery: str = "", since: float = 0.0) -> Json:
        endpoint = await self.one(who, named)
        if not endpoint.is_on:
            raise Conflict("This endpoint is turned off: turn it on first.")
        number = await self.number(endpoint, delivery) if delivery else 0
        if delivery and not number:
            raise UnknownObject
        replayed = await self.store.replay(endpoint.id, delivery=number, since=since)
        if delivery and not replayed:
            raise UnknownObject("There is no such delivery that has ended.")
        return {"object": "webhook.replay", "webhook": endpoint.id, "deliveries": replayed}

    async def number(self, endpoint: Endpoint, delivery: str) -> int:
        """Return the number of a delivery by its id, which has its event's: numbers are the platform's. 0 for none."""
        event = EventId(_EVENT + shapes.named(delivery, _PREFIX).removeprefix(_PREFIX))
        return await self.store.delivery(endpoint.id, event)

    def routes(self, api: FastAPI, access: Access) -> None:
        _add_endpoints(api, access, self)
        _add_acts(api, access, self)
        _add_deliveries(api, access, self)


def _add_endpoints(api: FastAPI, access: Access, service: Webhooks) -> None:
    @api.post(WEBHOOKS)
    async def create(request: Request) -> Response:
        who = access.caller(request)
        return shapes.answer(await service.create(who, shapes.body(await request.body(), _New)), 201)

    @api.get(WEBHOOKS)
    async def endpoints(request: Request) -> Response:
        found = await service.store.of_tenant(access.caller(request).tenant)
        return shapes.listed([_endpoint(one) for one in found], has_more=False)

    @api.get(f"{WEBHOOKS}/{{named}}")
    async def endpoint(named: str, request: Request) -> Response:
        return shapes.answer(_endpoint(await service.one(access.caller(request), named)))

    @api.post(f"{WEBHOOKS}/{{named}}")
    async def change(named: str, request: Request) -> Response:
        who = access.caller(request)
        return shapes.answer(await service.change(who, named, shapes.body(await request.body(), _Change)))

    @api.delete(f"{WEBHOOKS}/{{named}}")
    async def delete(named: str, request: Request) -> Response:
        who = access.caller(request)
        if not await service.store.delete(who.tenant, who.key, _id(named)):
            raise UnknownObject
        return shapes.answer({"id": named, "object": "webhook", "deleted": True})


def _add_acts(api: FastAPI, access: Access, service: Webhooks) -> None:
    @api.post(f"{WEBHOOKS}/{{named}}/rotate")
    async def rotate(named: str, request: Request) -> Response:
        who, raw = access.caller(request), await request.body()
        return shapes.answer(await service.rotate(who, named, shapes.body(raw or b"{}", _Rotation)))

    @api.post(f"{WEBHOOKS}/{{named}}/test")
    async def test(named: str, request: Request) -> Response:
        who = access.caller(request)
        endpoint = await service.one(who, named)
        if not await service.store.test(who.tenant, endpoint.id):
            raise Conflict("This endpoint is turned off: turn it on first.")
        return shapes.answer(_endpoint(endpoint), 202)

    @api.post(f"{WEBHOOKS}/{{named}}/replay")
    async def replay(named: str, request: Request) -> Response:
        who, raw = access.caller(request), await request.body()
        given = shapes.body(raw or b"{}", _Since)
        return shapes.answer(await service.replay(who, named, since=given.since), 202)


def _add_deliveries(api: FastAPI, access: Access, service: Webhooks) -> None:
    @api.get(f"{WEBHOOKS}/{{named}}/deliveries")
    async def deliveries(named: str, request: Request) -> Response:
        endpoint = await service.one(access.caller(request), named)
        page, state = shapes.paged(request.query_params), request.query_params.get("state", "")
        if state not in {"", *DeliveryState}:
            raise InvalidField(f"state is one of {', '.join(DeliveryState)}", param="state")
        after = await service.number(endpoint, page.after) if page.after else 0
        if page.after and not after:
            raise shapes.unlisted()
        found = await service.store.deliveries(
            endpoint.id, state, after, page.limit + 1, newest_first=not page.is_oldest_first
        )
        return shapes.listed([_delivery(one) for one in found[: page.limit]], has_more=len(found) > page.limit)

    @api.post(f"{WEBHOOKS}/{{named}}/deliveries/{{delivery}}/replay")
    async def replay(named: str, delivery: str, request: Request) -> Response:
        return shapes.answer(await service.replay(access.caller(request), named, delivery=delivery), 202)


def _id(named: str) -> EndpointId:
    return EndpointId(shapes.named(named, "we_"))


def _known(endpoint: Endpoint | None) -> Endpoint:
    if endpoint is None:
        raise UnknownObject
    return endpoint


def _events(given: Sequence[str]) -> tuple[str, ...]:
    unknown = [one for one in given if one not in TYPES and one != ALL_EVENTS]
    if unknown:
        raise InvalidField(f"events has an unknown type; known are {', '.join(sorted(TYPES))}, and *", param="events")
    return (ALL_EVENTS,) if ALL_EVENTS in given else tuple(dict.fromkeys(given))


def _endpoint(one: Endpoint) -> dict[str, object]:
    return {
        "id": one.id,
        "object": "webhook",
        "url": one.url,
        "events": one.events,
        "enabled": one.is_on,
        "disabled_reason": one.off_reason or None,
        "failing_since": _second(one.failing_since),
        "former_secret_until": _second(one.previous_until),
        "created_at": int(one.created_at),
    }


def _delivery(one: Delivery) -> dict[str, object]:
    return {
        "id": _PREFIX + one.event.id.removeprefix(_EVENT),
        "object": "webhook.delivery",
        "webhook": one.endpoint,
        "event": {
            "id": one.event.id,
            "type": one.event.type,
            "created_at": int(one.event.created_at),
            "data": data_of(one.event),
        },
        "state": one.state,
        "attempts": one.attempt,
        "next_attempt_at": int(one.next_at) if one.state is DeliveryState.DUE else None,
        "last_status": one.last_status or None,
        "last_error": one.last_error or None,
        "ended_at": _second(one.ended_at),
    }


def _second(at: float) -> int | None:
    return int(at) if at else None
