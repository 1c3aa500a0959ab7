"""Safety packs beside models: the shipped ones of a new platform, the models that rules ask, and the end of old
interventions. A later release never changes a pack that a platform has.
"""

import asyncio
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Protocol

from penstock.control.registry.operators import PLATFORM
from penstock.domain.clock import Clock
from penstock.domain.errors import Conflict, InvalidField, StoreUnavailable
from penstock.domain.fleet.versions import Catalogue
from penstock.domain.ids import VersionId
from penstock.domain.models.model import Manifest, ModelVersion
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.tenant import Plan
from penstock.filters import shipped
from penstock.filters.book import StoredPack
from penstock.filters.pack import Confirm, Pack

KEEP_S = 90 * 86_400.0
"""Interventions are kept for a quarter: a thousand a second are 86 million rows a day, an attack is rarely as long."""
EVERY_S = 3600.0


class Packs(Protocol):
    async def packs(self) -> tuple[StoredPack, ...]: ...

    async def push(self, pack: Pack, act: Act) -> None: ...

    async def forget(self, before: float) -> None: ...


async def seed(store: Packs, now: float) -> None:
    known = {one.pack.id for one in await store.packs()}
    for name in shipped.NAMES:
        if name not in known:
            await store.push(shipped.pack(name), Act(who=PLATFORM, what="safety.push", target=name, at=now))


async def forget_old(store: Packs, clock: Clock) -> None:
    while True:
        with suppress(StoreUnavailable):
            await store.forget(clock.now() - KEEP_S)
        await asyncio.sleep(EVERY_S)


def check_judges(pack: Pack, known: Catalogue) -> None:
    """Raise ``InvalidField`` for a rule with a model that can't be asked, or is under the same pack."""
    for at, rule in enumerate(pack.rules):
        if rule.confirm is not None and (wrong := _wrong(pack.id, rule.confirm, known)):
            field = f"rules[{at}].confirm.model"
            raise InvalidField(f"{field} {wrong}", param=field)


def check_judged(manifest: Manifest, packs: Iterable[StoredPack], known: Catalogue) -> None:
    """Raise ``InvalidField`` for a model under a pack that asks it."""
    for pack in (one.pack for one in packs if one.is_current and one.pack.id in manifest.safety):
        for confirm in (rule.confirm for rule in pack.rules if rule.confirm is not None):
            names = {confirm.model.partition("@")[0], *(one.manifest.name for one in _led(confirm.model, known))}
            if manifest.name in names:
                says = f"{pack.id} asks this model itself: leave that pack out"
                raise InvalidField(says, param="manifest.safety")


def in_force(packs: Iterable[StoredPack], floor: Iterable[str], plans: Iterable[Plan], known: Catalogue) -> list[Pack]:
    """Return the packs that the floor, a tenant or a model names."""
    named = {*floor, *(name for plan in plans for name in plan.safety.split(","))}
    named |= {name for version in known.versions for name in version.manifest.safety}
    return [one.pack for one in packs if one.is_current and one.pack.id in named]


def away(pack: Pack, known: Catalogue, staffed: Collection[VersionId]) -> dict[str, str]:
    """Return, by rule, why a model can't be asked; only ``staffed`` versions have workers."""
    asked = [(rule.name, rule.confirm) for rule in pack.rules if rule.confirm is not None]
    return {rule: why for rule, of in asked if (why := _wrong(pack.id, of, known) or _unstaffed(of, known, staffed))}


def check_asked(packs: Iterable[Pack], before: Catalogue, after: Catalogue) -> None:
    """Raise ``Conflict`` for a change after which a rule's model can't be asked any more."""
    for pack in packs:
        was, now = (away(pack, one, {of.version for of in one.deployments if of.replicas}) for one in (before, after))
        if lost := sorted(now.keys() - was.keys()):
            says = f"the pack {pack.name} is in force, and confirm.model of its rule {lost[0]} then {now[lost[0]]}"
            raise Conflict(f"{says}: push a version of the pack that asks another first (penstock safety packs)")


def _unstaffed(confirm: Confirm, known: Catalogue, staffed: Collection[VersionId]) -> str:
    led = [version.id for version in _led(confirm.model, known)]
    return "" if any(one in staffed for one in led) else f"has no worker: {', '.join(led)}"


def _wrong(pack: str, confirm: Confirm, known: Catalogue) -> str:
    led, api = _led(confirm.model, known), Api.COMPLETIONS if confirm.prompt else Api.EMBEDDINGS
    if not led:
        return f"names no model of this platform: {confirm.model}; name an alias or a version"
    for version in led:
        if version.manifest.task not in api.tasks:
            return f"is no {'guard model' if confirm.prompt else 'encoder'}: {version.id} does not answer {api.value}"
        if known.owners.get(version.id) is not None:
            return f"belongs to some tenants alone: {version.id}; the platform itself asks it"
        if pack in version.manifest.safety:
            return f"is under this pack itself: {version.id}; name another model"
    return ""


def _led(name: str, known: Catalogue) -> list[ModelVersion]:
    ids = {share.version for route in known.routes if route.alias == name for share in route.shares}
    return [version for version in known.versions if version.id in (ids or {VersionId(name)})]
