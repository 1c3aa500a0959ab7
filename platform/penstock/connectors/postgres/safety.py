"""Safety packs and interventions in Postgres; a trigger notifies gateways of each change (``penstock_safety``)."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from penstock.connectors.postgres.audit import note
from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import Conflict
from penstock.domain.ids import TenantId
from penstock.domain.tenancy.audit import Act
from penstock.filters.book import StoredPack
from penstock.filters.evidence import MOST_KEPT, SealedText
from penstock.filters.intervention import Events, Intervention, RuleCount
from penstock.filters.pack import Pack

_SQL = load("safety")
_PACK = msgspec.json.Decoder(Pack)
_COLUMNS, _KEPT = tuple(Intervention.__dataclass_fields__), tuple(SealedText.__dataclass_fields__)


class PostgresPacks:
    """A change and its audit row are one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def packs(self) -> tuple[StoredPack, ...]:
        return tuple(
            StoredPack(
                pack=_PACK.decode(row["pack"]),
                digest=row["digest"],
                is_current=bool(row["is_current"]),
                created_at=row["created_at"],
            )
            for row in await self._database.rows(_SQL["packs"])
        )

    async def floor(self) -> tuple[str, ...]:
        row = await self._database.row(_SQL["floor"])
        return () if row is None else tuple(row["packs"])

    async def push(self, pack: Pack, act: Act) -> None:
        async with self._database.transaction() as session:
            await session.run(_SQL["lock"])
            newest = await session.row(_SQL["newest"], pack.id)
            if await session.row(_SQL["add_pack"], pack.digest, pack.id, pack.version, pack.text, act.at) is None:
                stored = await session.row(_SQL["version"], pack.id, pack.version)
                if stored is None or stored["digest"] != pack.digest:
                    raise Conflict(f"{pack.name} exists with other rules: raise its version")
            elif newest is not None and pack.version < (newest["version"] or 0):
                raise Conflict(f"{pack.id}@{newest['version']} exists: raise the version above it")
            await _choose(session, pack.id, pack.digest, act)

    async def choose(self, pack: str, version: int | None, act: Act) -> bool:
        async with self._database.transaction() as session:
            await session.run(_SQL["lock"])
            row = await session.row(_SQL["before"], pack) if version is None else None
            row = await session.row(_SQL["version"], pack, version) if version is not None else row
            if row is None:
                return False
            await _choose(session, pack, row["digest"], act)
        return True

    async def put_floor(self, packs: Sequence[str], act: Act) -> None:
        async with self._database.transaction() as session:
            await session.run(_SQL["put_floor"], list(packs), act.who, act.at)
            await note(session, act)

    async def events(self, of: Events, limit: int) -> tuple[Intervention, ...]:
        rows = await self._database.rows(_SQL["events"], *_filter(of), limit)
        return tuple(msgspec.convert(dict(row), Intervention) for row in rows)

    async def texts(self, of: Events, limit: int) -> tuple[tuple[Intervention, SealedText], ...]:
        rows = [dict(row) for row in await self._database.rows(_SQL["texts"], *_filter(of), limit)]
        return tuple((msgspec.convert(row, Intervention), msgspec.convert(row, SealedText)) for row in rows)

    async def counts(self, of: Events) -> tuple[RuleCount, ...]:
        rows = await self._database.rows(_SQL["counts"], *_filter(of))
        return tuple(msgspec.convert(dict(row), RuleCount) for row in rows)

    async def served(self, of: Events) -> dict[TenantId, int]:
        """Return the tenants' ended requests by the ledger, which also has filtered ones."""
        rows = await self._database.rows(_SQL["served"], of.since, of.until, of.tenant)
        return {TenantId(row["tenant"]): row["requests"] for row in rows}

    async def forget(self, before: float) -> None:
        await self._database.rows(_SQL["forget"], before)


async def append(database: Database | Session, interventions: Sequence[Intervention]) -> None:
    if interventions:
        columns = [[getattr(one, column) for one in interventions] for column in _COLUMNS]
        await database.rows(_SQL["append"], *columns)


async def keep(database: Database, texts: Sequence[SealedText]) -> int:
    """Return the number of texts for which their tenants have no room."""
    columns = [[getattr(one, column) for one in texts] for column in _KEPT]
    return int((await database.rows(_SQL["keep"], *columns, MOST_KEPT))[0]["dropped"])


def _filter(of: Events) -> tuple[object, ...]:
    return of.since, of.until, of.tenant, of.pack, of.rule, of.request


async def _choose(session: Session, pack: str, digest: str, act: Act) -> None:
    await session.run(_SQL["choose"], pack, digest, act.who, act.at)
    await note(session, replace(act, target=pack, detail=f"{act.detail} {digest[:12]}".strip()))
