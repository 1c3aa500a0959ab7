"""Records of scaling in Postgres, bounded for each version."""

from collections.abc import Sequence

import msgspec

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.queries import load
from penstock.domain.fleet.scaling import ScaleRecord

MOST_KEPT = 1_000
"""Records of one version, a kilobyte each: 100 hours of ten changes an hour; no version pushes out another's."""
_SQL = load("scaling")
_RECORD = msgspec.json.Decoder(ScaleRecord)


class PostgresScaleRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, records: Sequence[ScaleRecord]) -> None:
        async with self._database.transaction() as session:
            await session.run(_SQL["note"], msgspec.json.encode(records).decode())
            for version in sorted({one.version for one in records}):
                await session.run(_SQL["bound"], version, MOST_KEPT)

    async def newest(self, version: str, limit: int) -> tuple[ScaleRecord, ...]:
        return tuple(_RECORD.decode(row["body"]) for row in await self._database.rows(_SQL["newest"], version, limit))
