"""The registry for operators: it checks each change by the rules, then stores it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from penstock.control.registry import adapters, auto_rules, rules
from penstock.control.registry.operators import PLATFORM
from penstock.control.registry.ports import RegistryStore
from penstock.domain.errors import Conflict, UnknownModel
from penstock.domain.fleet.scaling import Override
from penstock.domain.fleet.table import WEIGHT_TOTAL, Route
from penstock.domain.fleet.versions import Catalogue, Deployment
from penstock.domain.ids import Alias, VersionId, WorkerId
from penstock.domain.models import curves
from penstock.domain.models.adapter import bases_of
from penstock.domain.models.curves import Curve
from penstock.domain.models.model import Manifest, ModelVersion
from penstock.domain.serving.auto import Auto
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.owners import EVERYBODY, Owners, said

_RENEWALS_KEPT = 100


class Registry:
    def __init__(self, store: RegistryStore, *, pool_bytes: int = 0) -> None:
        self.store = store
        self._pool_bytes = pool_bytes

    async def register(self, manifest: Manifest, signature: str, act: Act, tenants: Owners = EVERYBODY) -> ModelVersion:
        """Return the stored version for a known digest.

        Raises ``ArtifactRefused`` if it may not be registered, ``Conflict`` if it is stored for other tenants.
        """
        version = rules.version_of(manifest, signature, act.at)
        if manifest.adapter is not None:
            adapters.check_registration(manifest, await self.store.versions())
        asked = rules.checked_owners(tenants)
        detail = act.detail if asked is None else f"for {said(asked)}"
        act = replace(act, target=version.id, detail=detail)
        stored = await self.store.add_version(version, signature, act, asked)
        if asked is not None:
            rules.check_same_owners(stored.id, asked, await self.store.owned())
        return stored

    async def put_owners(self, version: VersionId, tenants: Owners, act: Act) -> Owners:
        """Set the tenants, None for every tenant; raises ``UnknownModel`` or ``InvalidField``."""
        await self.version(version)
        asked = rules.checked_owners(tenants)
        await self.store.put_owners(version, asked, replace(act, detail=f"for {said(asked)}"))
        return asked

    async def owners(self) -> dict[VersionId, Owners]:
        """Return the restricted versions and their tenants; an adapter inherits its base's restriction."""
        return (await self.store.catalogue()).owners

    async def of_base(self, version: VersionId) -> tuple[VersionId, ...]:
        bases = bases_of(await self.store.versions())
        return version, *sorted(one for one, base in bases.items() if base == version)

    async def version(self, version_id: VersionId) -> ModelVersion:
        for version in await self.store.versions():
            if version.id == version_id:
                return version
        raise UnknownModel(f"there is no version {version_id}")

    async def curves(self, version: VersionId) -> tuple[Curve, ...]:
        await self.version(version)
        return await self.store.curves(version)

    async def put_curve(self, version: VersionId, curve: Curve, act: Act) -> Curve:
        await self.version(version)
        curves.check(curve, act.at)
        await self.store.put_curve(version, curve, replace(act, detail=curve.hardware))
        return curve

    async def may_ask(self, worker_of: VersionId, version: VersionId) -> bool:
        """True for a worker's own version and for adapters of it."""
        return version == worker_of or adapters.base_of(version, await self.store.versions()) == worker_of

    async def put_alias(self, route: Route, act: Act) -> Route:
        known = await self.store.catalogue()
        rules.check_route(route, frozenset(version.id for version in known.versions))
        auto_rules.check_alias(route.alias, known.autos)
        rules.check_owned_overrides(route, known.owners)
        detail = ", ".join(f"{share.version} {share.weight * 100 / WEIGHT_TOTAL:g} %" for share in route.shares)
        detail += f"; overrides: {len(route.overrides)}" if route.overrides else ""
        await self.store.put_routes(((route.alias, route),), replace(act, detail=detail))
        return route

    async def remove_alias(self, alias: Alias, act: Act) -> None:
        if alias not in {route.alias for route in await self.store.routes()}:
            raise UnknownModel(f"there is no alias {alias}")
        auto_rules.check_unled(alias, await self.store.autos())
        await self.store.put_routes(((alias, None),), act)

    async def restore_routes(self, wanted: tuple[Route, ...], autos: tuple[Auto, ...], act: Act) -> None:
        known = await self._known()
        for route in wanted:
            rules.check_route(route, known)
        changes = rules.changes_to(await self.store.routes(), wanted)
        await self.store.put_routes(changes, act)
        if ruled := rules.changes_to(await self.store.autos(), autos):
            await self.store.put_autos(ruled, act)

    async def put_auto(self, auto: Auto, act: Act) -> Auto:
        store = self.store
        auto_rules.check_auto(auto, await store.versions(), await store.routes(), await store.autos())
        detail = ", ".join(f"{rule.name}={rule.to}" for rule in auto.rules)
        await store.put_autos(((auto.alias, auto),), replace(act, detail=detail))
        return auto

    async def remove_auto(self, alias: Alias, act: Act) -> None:
        if alias not in {auto.alias for auto in await self.store.autos()}:
            raise UnknownModel(f"there is no auto alias {alias}")
        await self.store.put_autos(((alias, None),), act)

    async def put_replicas(self, version: VersionId, replicas: int, act: Act) -> Deployment:
        deployment = replace(await self._deployment(version), replicas=replicas)
        rules.check_deployment(deployment, await self._known())
        known = await self.store.catalogue()
        adapters.check_scale(deployment, known)
        if deployment.pinned and replicas:
            adapters.check_pin(version, known)
        rules.check_pool(deployment, known, self._pool_bytes)
        await self.store.put_deployment(deployment, replace(act, detail=act.detail or f"replicas={replicas}"))
        return deployment

    async def pin(self, version: VersionId, act: Act, *, pinned: bool) -> Deployment:
        """Keep the version's workers awake, or the adapter loaded; ``Conflict`` if the pins would not fit."""
        known = await self.store.catalogue()
        deployment = replace(await self._deployed(version, known), pinned=pinned)
        if pinned:
            adapters.check_pin(version, known)
            rules.check_pool(deployment, known, self._pool_bytes)
        await self.store.put_deployment(deployment, act)
        return deployment

    async def put_override(self, version: VersionId, override: Override | None, act: Act) -> Deployment:
        deployment = await self._deployed(version, await self.store.catalogue())
        told = override or deployment.override
        if told is None:
            raise Conflict(f"{version} has no override (penstock scale status)")
        changed = replace(deployment, override=override)
        await self.store.put_deployment(changed, replace(act, detail=f"{told}: {told.reason}"))
        return changed

    async def end_override(self, version: VersionId, now: float) -> None:
        deployment = await self._deployment(version)
        if deployment.override is not None and deployment.override.has_ended(now):
            act = Act(who=PLATFORM, what="scale.override_end", target=version, at=now, detail=str(deployment.override))
            await self.store.put_deployment(replace(deployment, override=None), act)

    async def renew_all(self, version: VersionId, act: Act) -> Deployment:
        return await self._renew(replace(await self._existing(version), renew_before=act.at), act)

    async def renew_worker(self, version: VersionId, worker: WorkerId, act: Act) -> Deployment:
        deployment = await self._existing(version)
        renew = (*(one for one in deployment.renew if one != worker), worker)[-_RENEWALS_KEPT:]
        return await self._renew(replace(deployment, renew=renew), act)

    async def _renew(self, deployment: Deployment, act: Act) -> Deployment:
        await self.store.put_deployment(deployment, act)
        return deployment

    async def _deployment(self, version: VersionId) -> Deployment:
        found = [one for one in await self.store.deployments() if one.version == version]
        return found[0] if found else Deployment(version=version, replicas=0)

    async def _deployed(self, version: VersionId, known: Catalogue) -> Deployment:
        deployment = await self._deployment(version)
        if deployment.replicas == 0:
            is_adapter = adapters.base_of(version, known.versions) != version
            what = f"the adapter {version} is off" if is_adapter else f"{version} is not deployed"
            raise UnknownModel(f"{what}: penstock models scale {version} 1")
        return deployment

    async def _existing(self, version: VersionId) -> Deployment:
        known = await self.store.catalogue()
        adapters.check_renewal(version, known.versions)
        return await self._deployed(version, known)

    async def _known(self) -> frozenset[VersionId]:
        return frozenset(version.id for version in await self.store.versions())


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopActs:
    """The loop's changes are administrative acts, since operators change deployments too."""

    acts: Callable[[], AbstractAsyncContextManager[None]]
    rules: Registry

    async def put_replicas(self, version: VersionId, replicas: int, act: Act) -> object:
        async with self.acts():
            return await self.rules.put_replicas(version, replicas, act)

    async def end_override(self, version: VersionId, now: float) -> None:
        async with self.acts():
            await self.rules.end_override(version, now)
