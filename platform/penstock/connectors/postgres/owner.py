"""Ties a database to one platform, by fingerprints of its key and of its API keys' pepper.

Two platforms on one database would share a ledger, command each other's workers, and check keys with another pepper.
"""

from contextlib import suppress
from typing import NamedTuple

import asyncpg

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import StoreUnavailable

_SQL = load("platform")


class _Statements(NamedTuple):
    read: str
    claim: str
    renew: str


_OF_KEY = _Statements(_SQL["fingerprint"], _SQL["claim"], _SQL["renew"])
_OF_PEPPER = _Statements(_SQL["pepper"], _SQL["claim_pepper"], _SQL["renew_pepper"])


async def is_owner(database: Database, fingerprints: tuple[str, ...]) -> bool:
    """An unclaimed database is claimed. During key rotation the first fingerprint is stored. A role without write
    access leaves the claim to others: ``StoreUnavailable`` until then.
    """
    return await _is_known(database, _OF_KEY, fingerprints)


async def is_pepper(database: Database, fingerprints: tuple[str, ...]) -> bool:
    return await _is_known(database, _OF_PEPPER, fingerprints)


async def _is_known(database: Database, statements: _Statements, fingerprints: tuple[str, ...]) -> bool:
    try:
        known = await _read(database, statements)
        if not known:
            await database.rows(statements.claim, fingerprints[0])
        elif known in fingerprints[1:]:
            with suppress(StoreUnavailable):
                await database.rows(statements.renew, fingerprints[0], list(fingerprints))
        return (known or await _read(database, statements)) in fingerprints
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError) as error:
        raise StoreUnavailable("some tables are still missing in the database") from error


async def _read(database: Database, statements: _Statements) -> str:
    row = await database.row(statements.read)
    return str(row["known"]) if row is not None else ""
