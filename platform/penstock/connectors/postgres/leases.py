"""Workers' last heartbeats in Postgres."""

from collections.abc import Sequence

import msgspec
from asyncpg import Record

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.queries import load
from penstock.domain.fleet.versions import Seen
from penstock.domain.fleet.worker import WorkerReport
from penstock.domain.ids import WorkerId

_SQL = load("fleet")
_REPORT = msgspec.json.Decoder(WorkerReport)


class PostgresLeases:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._read: dict[WorkerId, Seen] = {}

    async def save(self, seen: Sequence[Seen]) -> None:
        reports = [msgspec.json.encode(one.report).decode() for one in seen]
        workers = [one.report.worker for one in seen]
        await self._database.rows(_SQL["save"], workers, reports, [one.at for one in seen])
        self._read.update((one.report.worker, one) for one in seen)

    async def load(self, after: float) -> tuple[Seen, ...]:
        found = [self._seen(row) for row in await self._database.rows(_SQL["load"], after)]
        self._read = {one.report.worker: one for one in found}
        return tuple(found)

    def _seen(self, row: Record) -> Seen:
        """Decode a report only if it is newer than the last one decoded."""
        known = self._read.get(row["worker"])
        if known is not None and known.at == row["seen_at"]:
            return known
        return Seen(report=_REPORT.decode(row["report"]), at=row["seen_at"])

    async def forget(self, before: float) -> None:
        await self._database.rows(_SQL["forget"], before)
