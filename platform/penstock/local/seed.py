"""The first data of a platform: tables, the demo tenant, operators, their keys, aliases, deployments.

Later starts add only missing data: an alias changed by an operator stays.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.apps import keys, ownership
from penstock.connectors.postgres import roles
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.migrations import migrate as apply_migrations
from penstock.connectors.postgres.registry import PostgresRegistry
from penstock.connectors.postgres.safety import PostgresPacks
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.control.registry import operators, packs
from penstock.control.registry.registry import Registry
from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.domain.errors import Conflict, PenstockError
from penstock.domain.fleet.table import WEIGHT_TOTAL, Route, Share
from penstock.domain.ids import Alias, ModelName, TenantId, VersionId
from penstock.domain.tenancy.audit import NO_TENANT, Act
from penstock.domain.tenancy.keys import is_hash_of, key_id_of, mint
from penstock.domain.tenancy.tenant import Plan, Role, Tenant
from penstock.packaging.packing import Packed
from penstock.settings import Settings
from penstock.supervision.files import read_if_there, write_private

DEMO = Tenant(id=TenantId("demo"), name="Demo", plan=Plan(safety="secrets"))


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[Database]:
    try:
        async with Database(address, max_connections=2) as database:
            yield database
    except PenstockError as error:
        raise CommandError(
            f"The database refused the start: {error.message}.",
            do="Check PENSTOCK_DATABASE_URL, or read the log of the embedded one: logs/postgres.log.",
        ) from error


async def migrate(address: str) -> int:
    async with opened(address) as database:
        return await apply_migrations(database)


async def let_in(address: str) -> None:
    async with opened(address) as database:
        await roles.grant(database, dict.fromkeys((roles.GATEWAY, roles.CONTROLLER, roles.RUNNER), ""))


async def claim(settings: Settings) -> None:
    async with opened(settings.database_url) as database:
        await ownership.check(settings, database, keys.read(settings))


class Seed:
    def __init__(self, settings: Settings, database: Database, clock: Clock) -> None:
        self._paths = settings.paths
        self._replicas = settings.workers
        self._tenancy, self._packs = PostgresTenancy(database), PostgresPacks(database)
        self._registry = Registry(PostgresRegistry(database))
        self._clock = clock
        self._peppers = keys.read(settings).peppers

    async def tenants(self) -> int:
        await packs.seed(self._packs, self._clock.now())
        known = {tenant.id for tenant in await self._tenancy.tenants()}
        for tenant in (DEMO, operators.TENANT):
            if tenant.id not in known:
                await self._tenancy.add_tenant(tenant, self._act("tenant.create", tenant.id, tenant=tenant.id))
        minted = 0
        for file, tenant, role in (
            (self._paths.demo_key, DEMO, Role.INFER),
            (self._paths.admin_key, operators.TENANT, Role.ADMIN),
        ):
            if not await self._works(file):
                await self._mint(file, tenant, role)
                minted += 1
        return minted

    async def demo(self, packed: Mapping[Alias, Packed], names: frozenset[ModelName]) -> None:
        for one in packed.values():
            await self._registry.register(
                one.manifest, f"signatures/{one.digest}", self._act("version.register", one.id)
            )
        versions = {alias: one.id for alias, one in packed.items()}
        routes = {route.alias: route for route in await self._registry.store.routes()}
        for alias, version in versions.items():
            if alias not in routes or _is_outdated(routes[alias], version):
                await self._registry.put_alias(_route(alias, version), self._act("alias.set", alias))
        await self._deploy(frozenset(versions.values()), names)

    async def _deploy(self, wanted: frozenset[VersionId], names: frozenset[ModelName]) -> None:
        present = {deployment.version: deployment.replicas for deployment in await self._registry.store.deployments()}
        retired = {version for version in present if _name_of(version) in names} - wanted
        for version, replicas in [*((one, self._replicas) for one in wanted), *((one, 0) for one in retired)]:
            if present.get(version) != replicas:
                await self._put_replicas(version, replicas)

    async def _put_replicas(self, version: VersionId, replicas: int) -> None:
        """Set the replicas; a retired version stays while its adapter is deployed."""
        try:
            await self._registry.put_replicas(version, replicas, self._act("deployment.set", version))
        except Conflict:
            if replicas:
                raise

    async def _works(self, file: Path) -> bool:
        secret = read_if_there(file)
        key_id = key_id_of(secret)
        stored = await self._tenancy.key(key_id) if key_id is not None else None
        if stored is None or not is_hash_of(stored.secret_hash, secret, self._peppers):
            return False
        return stored.valid_at(self._clock.now())

    async def _mint(self, file: Path, tenant: Tenant, role: Role) -> None:
        secret, key = mint(tenant.id, pepper=self._peppers[0], now=self._clock.now(), role=role)
        await self._tenancy.add_key(
            key, self._act("key.create", key.id, f"for {tenant.id} at first start", tenant=tenant.id)
        )
        write_private(file, secret)

    def _act(self, what: str, target: str, detail: str = "", *, tenant: TenantId = NO_TENANT) -> Act:
        return Act(who=operators.PLATFORM, what=what, target=target, at=self._clock.now(), detail=detail, tenant=tenant)


def _name_of(version: VersionId) -> ModelName:
    return ModelName(version.partition("@")[0])


def _is_outdated(route: Route, version: VersionId) -> bool:
    versions = {share.version for share in route.shares}
    return version not in versions and {_name_of(one) for one in versions} == {_name_of(version)}


def _route(alias: Alias, version: VersionId) -> Route:
    return Route(alias=alias, shares=(Share(version=version, weight=WEIGHT_TOTAL),))
