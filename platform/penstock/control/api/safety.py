"""Operators: safety packs and the platform's floor. Tenants: what filters did to their requests."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query

from penstock.control.api.acts import ActRoute
from penstock.control.api.bodies import MatchesAsked, NewFloor, NewPack, PackChoice
from penstock.control.api.deps import Control, Controlled, Manager, Operator, Overseer, Reader, Second
from penstock.control.api.ports import PackStore
from penstock.control.api.wire import Sent
from penstock.control.registry import packs as rules
from penstock.domain.errors import Conflict, InvalidField
from penstock.domain.fleet.versions import Catalogue
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import TenantId
from penstock.domain.tenancy.audit import NO_TENANT
from penstock.filters import evidence
from penstock.filters.book import StoredPack
from penstock.filters.evidence import SealedText
from penstock.filters.intervention import Events, Intervention, RuleCount
from penstock.filters.pack import Mode
from penstock.filters.reading import parse
from penstock.sealing.keys import Keys
from penstock.sealing.segments import Unreadable

router = APIRouter(prefix="/safety", tags=["safety"], route_class=ActRoute)
MOST_EVENTS = 1000
_ASKED = frozenset({WorkerState.READY, WorkerState.SLEEPING, WorkerState.WAKING})
"""States of workers that answer at once, or when they are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackShown:
    """A version of a pack; gateways filter with the current one."""

    id: str
    version: int
    digest: str
    mode: Mode
    rules: tuple[str, ...]
    is_current: bool
    created_at: float
    away: Mapping[str, str]
    """Of the current version, rules with a model that can't be asked now, and why: they decide as `away` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackList:
    """Packs by id, newest version first, and the ids of those that hold for every request."""

    packs: tuple[PackShown, ...]
    floor: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackText:
    """The current version of a pack, as it is read: JSON, which is YAML."""

    pack: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorShown:
    """The ids of the packs that hold for every request of the platform; empty for none."""

    packs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventList:
    """What filters did, newest first, with places in the judged text and never its words."""

    events: tuple[Intervention, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchText:
    """An intervention and the text that was matched; null if its key was shredded."""

    event: Intervention
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchList:
    """Texts that tenants keep by their plan's ``keep_matches_s``, newest first."""

    matches: tuple[MatchText, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A tenant's ended requests in the time that was asked for, by the ledger."""

    tenant: TenantId
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Interventions by rule and by pack, and the requests of their tenants."""

    rules: tuple[RuleCount, ...]
    packs: tuple[RuleCount, ...]
    """All rules of a pack together: a request in which several match is one."""
    served: tuple[Served, ...]


@router.post("/packs", status_code=201)
async def push(control: Controlled, caller: Operator, body: Sent[NewPack]) -> PackShown:
    """Store a pack's version and filter with it; gateways have it within a second.

    A pack that is not valid is refused with its rule and the reason, and the present one stays.
    """
    pack = await asyncio.to_thread(parse, body.pack.encode())
    rules.check_judges(pack, await control.registry.store.catalogue())
    await control.packs.push(pack, control.act(caller, "safety.push", pack.id))
    return (await _showing(control))(await _current(control.packs, pack.id))


@router.get("/packs")
async def packs(control: Controlled, _: Overseer) -> PackList:
    """List all versions of all packs."""
    found = await control.packs.packs()
    return PackList(packs=tuple(map(await _showing(control), found)), floor=await control.packs.floor())


@router.get("/packs/{pack}")
async def pack_text(control: Controlled, _: Overseer, pack: str) -> PackText:
    """Show the current version of a pack."""
    found = await _current(control.packs, pack)
    return PackText(pack=msgspec.json.encode(found.pack, order="sorted").decode())


@router.post("/packs/{pack}/rollback")
async def rollback(control: Controlled, caller: Operator, pack: str, body: Sent[PackChoice]) -> PackShown:
    """Filter with an earlier version again: with the one below the present, or with the one that is named."""
    act = control.act(caller, "safety.rollback", pack)
    present = await _current(control.packs, pack)
    if not await control.packs.choose(pack, body.version, act):
        if body.version is None:
            raise Conflict(f"{present.pack.name} is the only version, or the lowest")
        raise InvalidField(f"there is no version {body.version} of {pack}", param="version")
    return (await _showing(control))(await _current(control.packs, pack))


@router.put("/floor")
async def put_floor(control: Controlled, caller: Operator, body: Sent[NewFloor]) -> FloorShown:
    """Set the packs that hold for every request, whatever its tenant's plan says; none ends the floor."""
    await check_packs(control.packs, body.packs, "packs")
    act = control.act(caller, "safety.floor", "platform")
    await control.packs.put_floor(body.packs, replace(act, detail=", ".join(body.packs) or "none"))
    return FloorShown(packs=body.packs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Query of interventions: Unix seconds, ``until`` excluded; a pack as ``secrets`` or ``secrets@3``."""

    since: Second = 0.0
    until: Second = 0.0
    tenant: str = ""
    pack: str = ""
    rule: str = ""
    request: str = ""


async def _asked(caller: Reader, which: Annotated[Which, Depends()]) -> Events:
    whose = TenantId(which.tenant) or caller.reach or NO_TENANT
    if whose:
        caller.check_tenant(whose)
    return Events(
        since=which.since,
        until=which.until,
        tenant=whose,
        pack=which.pack,
        rule=which.rule,
        request=which.request,
    )


Asked = Annotated[Events, Depends(_asked)]


@router.get("/events")
async def events(
    control: Controlled, asked: Asked, limit: Annotated[int, Query(ge=1, le=MOST_EVENTS)] = 100
) -> EventList:
    """List what filters did, newest first: a tenant's own, or all tenants' to operators."""
    return EventList(events=await control.packs.events(asked, limit))


@router.post("/matches")
async def matches(control: Controlled, caller: Manager, body: Sent[MatchesAsked]) -> MatchList:
    """Show the kept texts of matches: a tenant's own to its admins, and to operators. Each look is an act."""
    tenant = TenantId(body.tenant) or caller.reach
    if not tenant:
        raise InvalidField("name the tenant, the texts of which are to be shown", param="tenant")
    caller.check_tenant(tenant)
    if not 1 <= body.limit <= MOST_EVENTS:
        raise InvalidField(f"limit has to be 1 to {MOST_EVENTS}", param="limit")
    asked = Events(since=body.since, tenant=tenant, pack=body.pack, rule=body.rule, request=body.request)
    found, keys = await control.packs.texts(asked, body.limit), control.sealing.content()
    shown = tuple([MatchText(event=event, text=await _opened(one, keys)) for event, one in found])
    act = control.act(caller, "safety.matches", tenant, tenant=tenant)
    await control.audit.note(replace(act, detail=f"{len(shown)} texts"))
    return MatchList(matches=shown)


async def _opened(one: SealedText, keys: Keys) -> str | None:
    try:
        return evidence.opened(one, await keys.opening(one.tenant, evidence.header(one))).text
    except Unreadable:
        return None


@router.get("/stats")
async def stats(control: Controlled, asked: Asked) -> Stats:
    """Count interventions by rule, also of packs that only observe: what they would have done."""
    served, counts = await control.packs.served(asked), await control.packs.counts(asked)
    return Stats(
        rules=tuple(one for one in counts if one.rule),
        packs=tuple(one for one in counts if not one.rule),
        served=tuple(Served(tenant=tenant, requests=requests) for tenant, requests in sorted(served.items())),
    )


async def check_packs(store: PackStore, packs: Iterable[str], param: str) -> None:
    """Raise ``InvalidField`` for a pack that was never pushed."""
    _check_among(await store.packs(), packs, param)


async def check_asked(control: Control, change: Callable[[Catalogue], Catalogue]) -> None:
    """Raise ``Conflict`` if a change takes away a model that a pack in force asks."""
    before, plans = await control.registry.store.catalogue(), [one.plan for one in await control.tenancy.tenants()]
    packs = rules.in_force(await control.packs.packs(), await control.packs.floor(), plans, before)
    rules.check_asked(packs, before, change(before))


async def _current(store: PackStore, pack: str) -> StoredPack:
    every = await store.packs()
    _check_among(every, (pack,), "pack")
    return next(one for one in every if one.pack.id == pack and one.is_current)


def _check_among(every: Iterable[StoredPack], packs: Iterable[str], param: str) -> None:
    known, named = sorted({one.pack.id for one in every}), set[str]()
    for name in packs:
        if name in named:
            raise InvalidField(f"{name} is named twice: leave one out", param=param)
        named.add(name)
        if name not in known:
            raise InvalidField(f"there is no safety pack {name}; there are: {', '.join(known) or 'none'}", param=param)


async def _showing(control: Control) -> Callable[[StoredPack], PackShown]:
    known, table = await control.registry.store.catalogue(), await control.tables.latest()
    staffed = {one.id for one in table.versions if any(worker.state in _ASKED for worker in one.workers)}

    def shown(stored: StoredPack) -> PackShown:
        pack = stored.pack
        return PackShown(
            id=pack.id,
            version=pack.version,
            digest=stored.digest,
            mode=pack.mode,
            rules=tuple(rule.name for rule in pack.rules),
            is_current=stored.is_current,
            created_at=stored.created_at,
            away=rules.away(pack, known, staffed) if stored.is_current else {},
        )

    return shown
