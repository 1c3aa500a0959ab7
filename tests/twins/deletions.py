"""Deletions in memory, as operators see them. Twin of `connectors.postgres.deletions`; nothing sweeps here."""

from dataclasses import dataclass, field

from penstock.domain.ids import TenantId
from penstock.domain.jobs.deletion import Deletion, DeletionId
from penstock.domain.tenancy.audit import Act
from tests.twins.audit import MemoryAudit


@dataclass
class MemoryDeletions:
    audit: MemoryAudit
    rows: dict[DeletionId, Deletion] = field(default_factory=dict)

    async def begin(self, new: Deletion, act: Act) -> Deletion:
        for one in self.rows.values():
            if one.scope == new.scope and not one.swept_at:
                return one
        stored = new._replace(id=DeletionId(len(self.rows) + 1))
        self.rows[stored.id] = stored
        await self.audit.note(act)
        return stored

    async def find(self, deletion: DeletionId) -> Deletion | None:
        return self.rows.get(deletion)

    async def newest(self, tenant: TenantId | str, limit: int) -> tuple[Deletion, ...]:
        found = [one for one in self.rows.values() if tenant in {"", one.scope.tenant}]
        return tuple(sorted(found, key=lambda one: -one.id)[:limit])

    async def unsigned(self, limit: int) -> tuple[Deletion, ...]:
        found = (one for one in self.rows.values() if one.swept_at and one.answers_at and not one.ended_at)
        return tuple(found)[:limit]

    async def end(self, deletion: DeletionId, receipt: str, signature: bytes, act: Act) -> bool:
        if self.rows[deletion].ended_at:
            return False
        told = {"receipt": receipt, "signature": signature, "ended_at": act.at}
        self.rows[deletion] = self.rows[deletion]._replace(**told)  # type: ignore[arg-type]
        await self.audit.note(act)
        return True
