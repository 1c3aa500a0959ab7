"""Operators: aliases, the versions behind them, and the evidence on versions that share one."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fastapi import APIRouter

from penstock.control.api.acts import ActRoute
from penstock.control.api.bodies import NewShares
from penstock.control.api.deps import Control, Controlled, Operator, Overseer
from penstock.control.api.safety import check_asked
from penstock.control.api.wire import Sent
from penstock.domain.errors import InvalidField
from penstock.domain.fleet.table import Override, Route
from penstock.domain.fleet.versions import Catalogue, PastRoute
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.rollout.judgement import Judgement
from penstock.domain.tenancy.tenant import KeyRing, Role

SHOWN = 50
"""Settings of a history that are shown."""
router = APIRouter(prefix="/aliases", tags=["models"], route_class=ActRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasList:
    """The aliases in force."""

    aliases: tuple[Route, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasHistory:
    """The present and past settings of an alias, newest first."""

    alias: Alias
    history: tuple[PastRoute, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasRemoved:
    """The name of the alias that was removed."""

    alias: Alias
    removed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PairJudged:
    """The judgement on a version against the incumbent, which has the largest share of the alias."""

    incumbent: VersionId
    judgement: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasCompared:
    """The judgements on the versions that share an alias."""

    alias: Alias
    pairs: tuple[PairJudged, ...]


@router.get("")
async def aliases(control: Controlled, _: Operator) -> AliasList:
    """List the aliases in force."""
    return AliasList(aliases=await control.registry.store.routes())


@router.get("/{alias}")
async def alias_history(control: Controlled, _: Operator, alias: Alias) -> AliasHistory:
    """Show an alias's settings, newest first."""
    return AliasHistory(alias=alias, history=await control.registry.store.route_history(alias, SHOWN))


@router.put("/{alias}")
async def put_alias(control: Controlled, caller: Operator, alias: Alias, body: Sent[NewShares]) -> Route:
    """Set the versions of an alias and their weights."""
    act = control.act(caller, "alias.set", alias)
    await control.rollouts.check_free((alias,))
    route = Route(alias=alias, shares=body.shares, overrides=await _overrides(control, alias, body))
    await check_asked(control, lambda known: _with(known, alias, route))
    return await control.registry.put_alias(route, act)


@router.delete("/{alias}")
async def remove_alias(control: Controlled, caller: Operator, alias: Alias) -> AliasRemoved:
    """Remove an alias."""
    act = control.act(caller, "alias.remove", alias)
    await control.rollouts.check_free((alias,))
    await check_asked(control, lambda known: _with(known, alias))
    await control.registry.remove_alias(alias, act)
    return AliasRemoved(alias=alias)


@router.get("/{alias}/comparison")
async def comparison(control: Controlled, _: Overseer, alias: Alias) -> AliasCompared:
    """Judge each version that shares the alias against the one with the largest share."""
    if all(route.alias != alias for route in await control.registry.store.routes()):
        raise InvalidField(f"there is no alias {alias}", param="alias")
    judged = control.comparisons.judged(alias)
    pairs = tuple(PairJudged(incumbent=pair.incumbent, judgement=judgement) for pair, judgement in judged)
    return AliasCompared(alias=alias, pairs=pairs)


def _with(known: Catalogue, alias: Alias, *routes: Route) -> Catalogue:
    return replace(known, routes=(*(one for one in known.routes if one.alias != alias), *routes))


async def _overrides(control: Control, alias: Alias, body: NewShares) -> tuple[Override, ...]:
    """Return the overrides; raise ``InvalidField`` for a tenant on which one would have no effect."""
    if body.overrides is None:
        return next((route.overrides for route in await control.registry.store.routes() if route.alias == alias), ())
    if body.overrides:
        tenants = (one.tenant for one in body.overrides)
        check_tenants(alias, tenants, await control.ring(), control.clock.now(), param="overrides")
    return body.overrides


def check_tenants(alias: Alias, named: Iterable[TenantId], ring: KeyRing, now: float, *, param: str) -> None:
    tenants = {tenant.id for tenant in ring.tenants}
    keys: dict[TenantId, list[bool]] = {}
    for key in ring.keys:
        if key.role is Role.INFER and key.valid_at(now):
            keys.setdefault(key.tenant, []).append(not key.models or alias in key.models)
    for one in named:
        if one not in tenants:
            raise InvalidField(f"there is no tenant {one[:80]}", param=param)
        if not any(keys.get(one, [True])):
            raise InvalidField(f"no key of {one} may use {alias}", param=param)
