"""Organisations, tenants and API keys (hashes only) in Postgres."""

from collections.abc import Callable

import asyncpg
import msgspec

from penstock.connectors.postgres.audit import note
from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import Conflict
from penstock.domain.ids import Alias, KeyId, OrgId, TenantId
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.tenant import ApiKey, Org, Plan, Role, ScopeId, ScopeKind, Tenant

_SQL = load("tenancy")
_PLANS = {
    ScopeKind.KEY: (_SQL["plan_of_key"], _SQL["put_plan_of_key"]),
    ScopeKind.TENANT: (_SQL["plan_of_tenant"], _SQL["put_plan_of_tenant"]),
    ScopeKind.ORG: (_SQL["plan_of_org"], _SQL["put_plan_of_org"]),
}


class PostgresTenancy:
    """A trigger notifies gateways of each change (``penstock_keys``)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def tenants(self) -> tuple[Tenant, ...]:
        rows = await self._database.rows(_SQL["tenants"])
        return tuple(map(_tenant, rows))

    async def add_tenant(self, tenant: Tenant, act: Act) -> None:
        async with self._database.transaction() as session:
            await session.run(_SQL["add_tenant"], tenant.id, tenant.name, _text(tenant.plan), act.at, tenant.org)
            await note(session, act)

    async def move_tenant(self, tenant: TenantId, org: OrgId, act: Act) -> Tenant | None:
        async with self._database.transaction() as session:
            row = await session.row(_SQL["move_tenant"], tenant, org)
            if row is None:
                return None
            await note(session, act)
        return _tenant(row)

    async def orgs(self) -> tuple[Org, ...]:
        rows = await self._database.rows(_SQL["orgs"])
        return tuple(Org(id=row["id"], name=row["name"], plan=_plan(row["plan"])) for row in rows)

    async def add_org(self, org: Org, act: Act) -> None:
        async with self._database.transaction() as session:
            await session.run(_SQL["add_org"], org.id, org.name, _text(org.plan), act.at)
            await note(session, act)

    async def change_plan(self, whose: ScopeId, change: Callable[[Plan], Plan], act: Act) -> Plan | None:
        lock, put = _PLANS[whose.kind]
        async with self._database.transaction() as session:
            row = await session.row(lock, whose.id)
            if row is None:
                return None
            plan = change(_plan(row["plan"]))
            await session.run(put, whose.id, _text(plan))
            await note(session, act)
        return plan

    async def keys(self) -> tuple[ApiKey, ...]:
        return tuple(_key(row) for row in await self._database.rows(_SQL["keys"]))

    async def key(self, key_id: KeyId) -> ApiKey | None:
        row = await self._database.row(_SQL["key"], key_id)
        return None if row is None else _key(row)

    async def add_key(self, key: ApiKey, act: Act) -> None:
        async with self._database.transaction() as session:
            await _insert(session, key)
            await note(session, act)

    async def revoke_key(self, key_id: KeyId, act: Act) -> bool:
        async with self._database.transaction() as session:
            row = await session.row(_SQL["revoke_key"], key_id, act.at)
            if row is not None:
                await note(session, act)
        return row is not None

    async def rotate_key(self, old: KeyId, new: ApiKey, old_expires_at: float, act: Act) -> None:
        async with self._database.transaction() as session:
            await _insert(session, new)
            if await session.row(_SQL["expire_key"], old, old_expires_at, new.id) is None:
                row = await session.row(_SQL["successor"], old)
                following = row["successor"] if row is not None else None
                raise Conflict(
                    f"its successor is {following}: rotate that one"
                    if following
                    else "only a key that still works can be rotated"
                )
            await note(session, act)


async def _insert(session: Session, key: ApiKey) -> None:
    await session.run(
        _SQL["add_key"],
        key.id,
        key.tenant,
        key.secret_hash,
        key.role,
        msgspec.json.encode(key.models).decode(),
        key.created_at,
        key.expires_at,
        key.revoked_at,
        _text(key.plan),
    )


def _tenant(row: asyncpg.Record) -> Tenant:
    return Tenant(id=row["id"], name=row["name"], plan=_plan(row["plan"]), org=row["org"])


def _key(row: asyncpg.Record) -> ApiKey:
    fields = dict(row)
    models = msgspec.json.decode(fields.pop("models"), type=tuple[Alias, ...])
    return ApiKey(**{**fields, "role": Role(fields["role"]), "models": models, "plan": _plan(fields["plan"])})


def _plan(text: str) -> Plan:
    return msgspec.json.decode(text, type=Plan)


def _text(plan: Plan) -> str:
    return msgspec.json.encode(plan).decode()
