"""The registry in Postgres."""

import asyncpg
import msgspec

from penstock.connectors.postgres.audit import note
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import Conflict
from penstock.domain.fleet.table import Route
from penstock.domain.fleet.versions import Catalogue, Deployment, PastRoute
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.models.curves import Curve
from penstock.domain.models.model import Manifest, ModelVersion, canonical
from penstock.domain.serving.auto import Auto, PastAuto
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.owners import EVERYBODY, Owned, Owners

_SQL = load("registry")
_ROUTES = msgspec.json.Decoder(tuple[Route, ...])
_ROUTE = msgspec.json.Decoder(Route)
_AUTOS = msgspec.json.Decoder(tuple[Auto, ...])
_AUTO = msgspec.json.Decoder(Auto)
_OWNED = msgspec.json.Decoder(tuple[Owned, ...])
_TENANTS = msgspec.json.Decoder(tuple[TenantId, ...])
_DEPLOYMENTS = msgspec.json.Decoder(tuple[Deployment, ...])
_CURVE = msgspec.json.Decoder(Curve)
_MANIFEST = msgspec.json.Decoder(Manifest)


class PostgresRegistry:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._versions: tuple[ModelVersion, ...] = ()

    async def versions(self) -> tuple[ModelVersion, ...]:
        return tuple(_version(row) for row in await self._database.rows(_SQL["versions"]))

    async def add_version(
        self, version: ModelVersion, signature: str, act: Act, tenants: Owners = EVERYBODY
    ) -> ModelVersion:
        text = canonical(version.manifest).decode()
        name = version.manifest.name
        async with self._database.transaction() as session:
            row = await session.row(
                _SQL["add_version"], version.id, name, version.digest, text, signature, version.created_at
            )
            if row is not None:
                if tenants is not None:
                    await session.run(_SQL["put_owned"], version.id, _text(tenants), act.who, act.at)
                await note(session, act)
                return version
            stored = await session.row(_SQL["version_by_digest"], version.digest)
        if stored is None:
            raise Conflict(f"{version.id} exists with another digest")
        return _version(stored)

    async def routes(self) -> tuple[Route, ...]:
        return tuple(_ROUTE.decode(row["route"]) for row in await self._database.rows(_SQL["routes"]))

    async def put_routes(self, changes: tuple[tuple[Alias, Route | None], ...], act: Act) -> None:
        async with self._database.transaction() as session:
            for alias, route in changes:
                text = None if route is None else msgspec.json.encode(route).decode()
                await session.run(_SQL["put_route"], alias, text, act.who, act.at)
            await note(session, act)

    async def route_history(self, alias: Alias, limit: int) -> tuple[PastRoute, ...]:
        rows = await self._database.rows(_SQL["route_history"], alias, limit)
        return tuple(
            PastRoute(route=_ROUTE.decode(row["route"]) if row["route"] else None, who=row["who"], at=row["put_at"])
            for row in rows
        )

    async def autos(self) -> tuple[Auto, ...]:
        return tuple(_AUTO.decode(row["auto"]) for row in await self._database.rows(_SQL["autos"]))

    async def put_autos(self, changes: tuple[tuple[Alias, Auto | None], ...], act: Act) -> None:
        async with self._database.transaction() as session:
            for alias, auto in changes:
                text = None if auto is None else msgspec.json.encode(auto).decode()
                await session.run(_SQL["put_auto"], alias, text, act.who, act.at)
            await note(session, act)

    async def auto_history(self, alias: Alias, limit: int) -> tuple[PastAuto, ...]:
        rows = await self._database.rows(_SQL["auto_history"], alias, limit)
        return tuple(
            PastAuto(auto=_AUTO.decode(row["auto"]) if row["auto"] else None, who=row["who"], at=row["put_at"])
            for row in rows
        )

    async def owned(self) -> tuple[Owned, ...]:
        rows = await self._database.rows(_SQL["owned"])
        return tuple(Owned(version=row["version"], tenants=_TENANTS.decode(row["tenants"])) for row in rows)

    async def put_owners(self, version: VersionId, tenants: Owners, act: Act) -> None:
        async with self._database.transaction() as session:
            await session.run(_SQL["put_owned"], version, _text(tenants), act.who, act.at)
            await note(session, act)

    async def deployments(self) -> tuple[Deployment, ...]:
        rows = await self._database.rows(_SQL["deployments"])
        return tuple(msgspec.json.decode(row["body"], type=Deployment) for row in rows)

    async def put_deployment(self, deployment: Deployment, act: Act) -> None:
        async with self._database.transaction() as session:
            text = msgspec.json.encode(deployment).decode()
            await session.run(_SQL["put_deployment"], deployment.version, text)
            await note(session, act)

    async def curves(self, version: VersionId) -> tuple[Curve, ...]:
        rows = await self._database.rows(_SQL["curves"], version)
        return tuple(_CURVE.decode(row["curve"]) for row in rows)

    async def put_curve(self, version: VersionId, curve: Curve, act: Act) -> None:
        async with self._database.transaction() as session:
            text = msgspec.json.encode(curve).decode()
            await session.run(_SQL["put_curve"], version, curve.hardware, text)
            await note(session, act)

    async def catalogue(self) -> Catalogue:
        """Versions are immutable, so they are read again only if their number changed."""
        row = await self._database.row(_SQL["catalogue"])
        if row is None:
            return Catalogue()
        if row["version_count"] != len(self._versions):
            self._versions = await self.versions()
        return Catalogue(
            versions=self._versions,
            routes=_ROUTES.decode(row["routes"]),
            deployments=_DEPLOYMENTS.decode(row["deployments"]),
            autos=_AUTOS.decode(row["autos"]),
            owned=_OWNED.decode(row["owned"]),
        )


def _text(tenants: Owners) -> str | None:
    return None if tenants is None else msgspec.json.encode(tenants).decode()


def _version(row: asyncpg.Record) -> ModelVersion:
    return ModelVersion(
        id=row["id"],
        digest=row["digest"],
        manifest=_MANIFEST.decode(row["canonical"]),
        created_at=row["created_at"],
    )
