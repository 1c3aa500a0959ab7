"""What exists, in memory. Twin of `connectors.postgres.registry`."""

from penstock.domain.errors import Conflict
from penstock.domain.fleet.table import Route
from penstock.domain.fleet.versions import Catalogue, Deployment, PastRoute
from penstock.domain.ids import Alias, VersionId
from penstock.domain.models.curves import Curve
from penstock.domain.models.model import ModelVersion
from penstock.domain.serving.auto import Auto, PastAuto
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.owners import EVERYBODY, Owned, Owners
from tests.twins.audit import MemoryAudit


class MemoryRegistry:
    """Versions, routes and deployments."""

    def __init__(self, audit: MemoryAudit) -> None:
        self._audit = audit
        self._versions: dict[VersionId, ModelVersion] = {}
        self._routes: dict[Alias, list[PastRoute]] = {}
        self._autos: dict[Alias, list[PastAuto]] = {}
        self._deployments: dict[VersionId, Deployment] = {}
        self._curves: dict[VersionId, dict[str, Curve]] = {}
        self._owners: dict[VersionId, Owners] = {}

    async def versions(self) -> tuple[ModelVersion, ...]:
        """Return every version, oldest first."""
        return tuple(sorted(self._versions.values(), key=lambda version: (version.created_at, version.id)))

    async def add_version(
        self, version: ModelVersion, signature: str, act: Act, tenants: Owners = EVERYBODY
    ) -> ModelVersion:
        """Store it and return it; where the digest is stored already, return that one and note no act."""
        del signature  # kept by the artifact store
        stored = self._versions.get(version.id)
        if stored is None:
            self._versions[version.id] = version
            self._owners[version.id] = tenants
            await self._audit.note(act)
            return version
        if stored.digest != version.digest:
            raise Conflict(f"{version.id} exists with another digest")
        return stored

    async def routes(self) -> tuple[Route, ...]:
        """Return the routes in force, by alias."""
        newest = (past[-1].route for _, past in sorted(self._routes.items()))
        return tuple(route for route in newest if route is not None)

    async def put_routes(self, changes: tuple[tuple[Alias, Route | None], ...], act: Act) -> None:
        for alias, route in changes:
            self._routes.setdefault(alias, []).append(PastRoute(route=route, who=act.who, at=act.at))
        await self._audit.note(act)

    async def route_history(self, alias: Alias, limit: int) -> tuple[PastRoute, ...]:
        """Return what an alias was set to, newest first."""
        return tuple(self._routes.get(alias, [])[::-1][:limit])

    async def autos(self) -> tuple[Auto, ...]:
        """Return the auto aliases in force, by alias."""
        newest = (past[-1].auto for _, past in sorted(self._autos.items()))
        return tuple(auto for auto in newest if auto is not None)

    async def put_autos(self, changes: tuple[tuple[Alias, Auto | None], ...], act: Act) -> None:
        for alias, auto in changes:
            self._autos.setdefault(alias, []).append(PastAuto(auto=auto, who=act.who, at=act.at))
        await self._audit.note(act)

    async def auto_history(self, alias: Alias, limit: int) -> tuple[PastAuto, ...]:
        """Return what an auto alias was set to, newest first."""
        return tuple(self._autos.get(alias, [])[::-1][:limit])

    async def owned(self) -> tuple[Owned, ...]:
        """Return the versions that are not for everybody, by version."""
        known = sorted(self._owners.items())
        return tuple(Owned(version=version, tenants=tenants) for version, tenants in known if tenants is not None)

    async def put_owners(self, version: VersionId, tenants: Owners, act: Act) -> None:
        """Say for which tenants a version is."""
        if version not in self._versions:
            raise Conflict("there is no such version")
        self._owners[version] = tenants
        await self._audit.note(act)

    async def deployments(self) -> tuple[Deployment, ...]:
        """Return the deployments, by version."""
        return tuple(deployment for _, deployment in sorted(self._deployments.items()))

    async def put_deployment(self, deployment: Deployment, act: Act) -> None:
        """Set what should run of a version."""
        if deployment.version not in self._versions:
            raise Conflict("there is no such version")
        self._deployments[deployment.version] = deployment
        await self._audit.note(act)

    async def curves(self, version: VersionId) -> tuple[Curve, ...]:
        return tuple(curve for _, curve in sorted(self._curves.get(version, {}).items()))

    async def put_curve(self, version: VersionId, curve: Curve, act: Act) -> None:
        if version not in self._versions:
            raise Conflict("there is no such version")
        self._curves.setdefault(version, {})[curve.hardware] = curve
        await self._audit.note(act)

    async def catalogue(self) -> Catalogue:
        """Return everything in one snapshot."""
        return Catalogue(
            versions=await self.versions(),
            routes=await self.routes(),
            deployments=await self.deployments(),
            autos=await self.autos(),
            owned=await self.owned(),
        )
