"""Operators: versions, aliases, deployments."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict

from fastapi import APIRouter, Request, Response

from penstock.control.api.bodies import ModelShown, NewModel, NewOwners, NewReplicas, NewShares
from penstock.control.api.deps import Control
from penstock.control.api.wire import answer, read
from penstock.control.registry import adapters
from penstock.domain.errors import InvalidField
from penstock.domain.fleet.table import Override, Route
from penstock.domain.ids import NO_VERSION, Alias, TenantId, VersionId
from penstock.domain.models.adapter import bases_of
from penstock.domain.models.model import EngineSettings
from penstock.domain.tenancy.owners import Owners
from penstock.domain.tenancy.tenant import KeyRing, Role


class Models:
    """What exists, and what of it should run."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._registry = control.registry

    def router(self) -> APIRouter:
        """Return its routes."""
        router = APIRouter(tags=["models"])
        router.add_api_route("/models", self.register, methods=["POST"], status_code=201)
        router.add_api_route("/models", self.models, methods=["GET"])
        router.add_api_route("/models/{version}", self.model, methods=["GET"])
        router.add_api_route("/models/{version}/tenants", self.put_owners, methods=["PUT"])
        router.add_api_route("/aliases", self.aliases, methods=["GET"])
        router.add_api_route("/aliases/{alias}", self.alias, methods=["GET"])
        router.add_api_route("/aliases/{alias}", self.put_alias, methods=["PUT"])
        router.add_api_route("/aliases/{alias}", self.remove_alias, methods=["DELETE"])
        router.add_api_route("/deployments", self.deployments, methods=["GET"])
        router.add_api_route("/deployments/{version}", self.put_deployment, methods=["PUT"])
        router.add_api_route("/deployments/{version}/pin", self.pin, methods=["PUT"])
        router.add_api_route("/deployments/{version}/pin", self.unpin, methods=["DELETE"])
        router.add_api_route("/deployments/{version}/restart", self.restart, methods=["POST"], status_code=202)
        return router

    async def register(self, request: Request) -> Response:
        """Register a version; the same bytes again are the same version (200 instead of 201), for the same tenants."""
        act = await self._control.act(request, "model.register")
        body = await read(request, NewModel)
        await self._check_known(body.tenants)
        version = await self._registry.register(body.manifest, body.signature, act, body.tenants)
        return answer(version, 201 if version.created_at == act.at else 200)

    async def put_owners(self, request: Request, version: VersionId) -> Response:
        """Say for which tenants a version is; everybody else finds none of that name, nor behind an alias."""
        act = await self._control.act(request, "model.tenants", version)
        body = await read(request, NewOwners)
        await self._check_known(body.tenants)
        for one in await self._registry.of_base(version):
            await self._control.rollouts.check_idle(one)
        tenants = await self._registry.put_owners(version, body.tenants, act)
        self._control.runtime.wake()
        aliases = [route.alias for route in await self._registry.routes() if _leads_to(route, version)]
        return answer({"version": version, "tenants": tenants, "aliases": aliases})

    async def _check_known(self, tenants: Owners) -> None:
        """Raise ``InvalidField`` where one of these is no tenant."""
        known = {tenant.id for tenant in (await self._control.ring()).tenants} if tenants else set[TenantId]()
        for one in tenants or ():
            if one not in known:
                raise InvalidField(f"there is no tenant {one[:80]} (penstock tenants list)", param="tenants")

    async def models(self, request: Request) -> Response:
        """List versions with where they are used."""
        await self._control.operator(request)
        deployed = {one.version: one for one in await self._registry.deployments()}
        routes, versions = await self._registry.routes(), await self._registry.versions()
        bases, owners = bases_of(versions), await self._registry.owners()
        seen, now = await self._control.heartbeats.seen(), self._control.clock.now()
        holders, refusals = adapters.holders(seen, now), adapters.refusals(seen, now)
        table = await self._control.tables.latest()
        states = {one.id: Counter(str(worker.state) for worker in one.workers) for one in table.versions}
        return answer(
            {
                "models": [
                    ModelShown(
                        id=version.id,
                        name=version.manifest.name,
                        task=version.manifest.task,
                        tier=version.manifest.tier,
                        price=version.manifest.price,
                        licence=version.manifest.provenance.licence,
                        size_bytes=version.manifest.size_bytes,
                        created_at=version.created_at,
                        replicas=deployed[version.id].replicas if version.id in deployed else 0,
                        pinned=version.id in deployed and deployed[version.id].pinned,
                        states=dict(states.get(version.id, {})),
                        aliases=tuple(route.alias for route in routes if _leads_to(route, version.id)),
                        base=bases.get(version.id, NO_VERSION),
                        resident=holders.get(version.id, ()),
                        refused=refusals.get(version.id, ()),
                        tenants=owners.get(version.id),
                        engine=_unusual(version.manifest.engine),
                    )
                    for version in versions
                ]
            }
        )

    async def model(self, request: Request, version: VersionId) -> Response:
        """Show a version whole."""
        await self._control.operator(request)
        return answer(await self._registry.version(version))

    async def aliases(self, request: Request) -> Response:
        """List the aliases in force."""
        await self._control.operator(request)
        return answer({"aliases": await self._registry.routes()})

    async def alias(self, request: Request, alias: Alias) -> Response:
        """Show what an alias was set to, newest first."""
        await self._control.operator(request)
        return answer({"alias": alias, "history": await self._registry.alias_history(alias)})

    async def put_alias(self, request: Request, alias: Alias) -> Response:
        """Set where an alias leads."""
        act = await self._control.act(request, "alias.put", alias)
        body = await read(request, NewShares)
        await self._control.rollouts.check_free((alias,))
        overrides = await self._overrides(alias, body)
        route = await self._registry.put_alias(Route(alias=alias, shares=body.shares, overrides=overrides), act)
        self._control.runtime.wake()
        return answer(route)

    async def _overrides(self, alias: Alias, body: NewShares) -> tuple[Override, ...]:
        """Return the alias's overrides to be, or raise ``InvalidField`` for a tenant that they would do nothing for."""
        if body.overrides is None:
            return next((route.overrides for route in await self._registry.routes() if route.alias == alias), ())
        if body.overrides:
            tenants = (one.tenant for one in body.overrides)
            check_tenants(alias, tenants, await self._control.ring(), self._control.clock.now(), param="overrides")
        return body.overrides

    async def remove_alias(self, request: Request, alias: Alias) -> Response:
        """Take an alias away."""
        act = await self._control.act(request, "alias.remove", alias)
        await self._control.rollouts.check_free((alias,))
        await self._registry.remove_alias(alias, act)
        self._control.runtime.wake()
        return answer({"alias": alias, "removed": True})

    async def deployments(self, request: Request) -> Response:
        """List what should run."""
        await self._control.operator(request)
        return answer({"deployments": [asdict(one) for one in await self._registry.deployments()]})

    async def put_deployment(self, request: Request, version: VersionId) -> Response:
        """Set how many workers a version has."""
        act = await self._control.act(request, "deployment.put", version)
        body = await read(request, NewReplicas)
        if not body.replicas:
            await self._control.rollouts.check_idle(version)
        deployment = await self._registry.put_replicas(version, body.replicas, act)
        self._control.runtime.wake()
        return answer(deployment)

    async def pin(self, request: Request, version: VersionId) -> Response:
        """Have a version's workers never sleep, and wake those that do."""
        return await self._pin(request, version, pinned=True)

    async def unpin(self, request: Request, version: VersionId) -> Response:
        """Let a version's workers sleep when others need their memory."""
        return await self._pin(request, version, pinned=False)

    async def _pin(self, request: Request, version: VersionId, *, pinned: bool) -> Response:
        act = await self._control.act(request, "deployment.pin" if pinned else "deployment.unpin", version)
        deployment = await self._registry.pin(version, act, pinned=pinned)
        self._control.runtime.wake()
        return answer(deployment)

    async def restart(self, request: Request, version: VersionId) -> Response:
        """Replace every worker of a version, one at a time, each new one ready before an old one drains."""
        act = await self._control.act(request, "deployment.restart", version)
        deployment = await self._registry.renew_all(version, act)
        self._control.runtime.wake()
        return answer(deployment, 202)


def _unusual(engine: EngineSettings) -> dict[str, str]:
    """Return an engine's settings that are not the usual ones: what tells versions of the same weights apart."""
    usual = asdict(EngineSettings())
    return {name: str(value) for name, value in asdict(engine).items() if value != usual[name]}


def check_tenants(alias: Alias, named: Iterable[TenantId], ring: KeyRing, now: float, *, param: str) -> None:
    """Return where each of these tenants is one and may use the alias; else raise ``InvalidField``."""
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


def _leads_to(route: Route, version: VersionId) -> bool:
    return any(share.version == version for share in route.shares)
