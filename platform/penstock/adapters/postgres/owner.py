"""Whose database this is: one platform's, known by a fingerprint of its key.

Two platforms on one database would write one ledger, lead each other's workers, and check keys with another pepper.
"""

import asyncpg

from penstock.adapters.postgres.database import Database
from penstock.adapters.postgres.queries import load
from penstock.domain.errors import StoreUnavailable

_SQL = load("platform")


async def is_owner(database: Database, fingerprints: tuple[str, ...]) -> bool:
    """Tell whether the database is this platform's; it becomes so where it is nobody's yet.

    While its key is exchanged a platform has several; the first is what the database knows it by afterwards.
    """
    try:
        async with database.transaction() as session:
            await session.run(_SQL["claim"], fingerprints[0])
            await session.run(_SQL["renew"], fingerprints[0], list(fingerprints))
            row = await session.row(_SQL["fingerprint"])
    except asyncpg.UndefinedTableError as error:
        raise StoreUnavailable("the database has no tables yet") from error
    return row is not None and str(row["fingerprint"]) == fingerprints[0]
