"""Whose database this is: one platform's, known by a fingerprint of its key.

Two platforms on one database would write one ledger, lead each other's workers, and check keys with another pepper.
"""

from contextlib import suppress

import asyncpg

from penstock.adapters.postgres.database import Database
from penstock.adapters.postgres.queries import load
from penstock.domain.errors import StoreUnavailable

_SQL = load("platform")


async def is_owner(database: Database, fingerprints: tuple[str, ...]) -> bool:
    """Tell whether the database is this platform's; it becomes so where it is nobody's yet.

    While its key is exchanged a platform has several; the first is what the database knows it by afterwards. Whose role
    may not write it leaves that to the others: ``StoreUnavailable`` until somebody has claimed the database.
    """
    try:
        known = await _known(database)
        if not known:
            await database.rows(_SQL["claim"], fingerprints[0])
        elif known in fingerprints[1:]:
            with suppress(StoreUnavailable):
                await database.rows(_SQL["renew"], fingerprints[0], list(fingerprints))
        return (known or await _known(database)) in fingerprints
    except asyncpg.UndefinedTableError as error:
        raise StoreUnavailable("the database has no tables yet") from error


async def _known(database: Database) -> str:
    row = await database.row(_SQL["fingerprint"])
    return str(row["fingerprint"]) if row is not None else ""
